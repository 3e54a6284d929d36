"""From a model's answer to source. (What is wrong with a source is judged by ``classify`` of source_check.)

A file that is Python as a whole is taken as it is. Otherwise the answer is read as Markdown. Rules, in order:

1. Whatever precedes the last ``</think>`` is thinking aloud, not the answer.
2. Of several fenced blocks that define ModelNew, the last that parses: models correct themselves downwards, and a
   complete earlier version beats a final one that was cut off.
3. If that block uses names that only earlier Python blocks bind (imports, the CUDA source in a string), the answer is
   one program told in pieces: those blocks go before it, in their order. Alone it could only raise NameError.
4. If no block defines ModelNew, all Python blocks are joined: nothing can make that pass, but the verdict should be
   about what the model wrote.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Literal

from kbverified.module_names import module_level_names, unbound_names
from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.source_check import SourceVerdict, classify

__all__ = ["Extraction", "SourceVerdict", "classify", "extract"]

_DEFINES_MODEL = re.compile(r"^[ \t]*(class[ \t]+ModelNew\b|ModelNew[ \t]*=|from[ \t].*\bimport\b.*\bModelNew\b)", re.M)
_LOOKS_LIKE_PYTHON = re.compile(
    r"^(import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|class[ \t]+\w+.*:|def[ \t]+\w+\()", re.M
)
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\r\n]*)$")
_PYTHON_TAGS = ("python", "py", "python3", "py3", "pycon")
_CUT_OFF = "the fence is not closed: the answer may be cut off"
_NOTHING = ("", "none", "null", "nan", "n/a")
_PARSE_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
# Parsing time may grow with the square of the length (parse_check); answers with code are some ten thousand.
_PARSE_LIMIT_CHARACTERS = 128 << 10


@dataclass(frozen=True)
class Extraction:
    """Code found in an answer. ``none``: code is empty and detail says why."""

    code: str
    how: Literal["verbatim", "fence", "none"]
    detail: str | None = None


@dataclass(frozen=True)
class _Block:
    tag: str
    code: str
    closed: bool

    @property
    def defines_model(self) -> bool:
        return _DEFINES_MODEL.search(self.code) is not None

    @property
    def is_python(self) -> bool:
        return self.tag in _PYTHON_TAGS or (self.tag == "" and _parses(self.code))


def extract(text: str | None) -> Extraction:
    """Find the candidate's source in an answer. Never raises; see the module's rules."""
    if text is None:
        return Extraction("", "none", "the answer is null")
    if text.strip().strip("'\"").lower() in _NOTHING:
        said = text.strip()
        return Extraction("", "none", f"the answer is {said!r}" if said else "the answer is empty")
    if len(text) > CANDIDATE_SIZE_LIMIT_BYTES:
        return Extraction(text, "verbatim", "too large to be searched for code")
    if _is_program(text):
        return Extraction(text, "verbatim")
    answer = text.rpartition("</think>")[2]
    blocks, outside = _split(answer)
    if not blocks and len(answer) > _PARSE_LIMIT_CHARACTERS:
        return Extraction(answer, "verbatim", "too large to be searched for code")
    if not any(block.defines_model for block in blocks) and _DEFINES_MODEL.search(outside):
        return Extraction(answer, "verbatim")  # a broken program, perhaps with a fence in a docstring
    if not blocks and _LOOKS_LIKE_PYTHON.search(answer):
        return Extraction(answer, "verbatim")  # cut off before it came to ModelNew
    if any(block.code.strip() for block in blocks):
        return _from_blocks([block for block in blocks if block.code.strip()])
    if blocks:
        return Extraction("", "none", "the fenced block is empty")
    said = " ".join(answer.split())[:200]
    return Extraction("", "none", f"no code in the answer: {said!r}" if said else "the answer stops before any code")


def _from_blocks(blocks: list[_Block]) -> Extraction:
    defining = [index for index, block in enumerate(blocks) if block.defines_model]
    if defining:
        complete = [index for index in defining if _parses(blocks[index].code)]
        chosen = (complete or defining)[-1]
        code = _with_missing_pieces(blocks, chosen)
        return Extraction(code, "fence", None if blocks[chosen].closed else _CUT_OFF)
    python = [block for block in blocks if block.is_python] or [block for block in blocks if block.tag == ""]
    code = "\n".join(block.code for block in python)
    if not python:
        tags = ", ".join(sorted({block.tag for block in blocks}))
        return Extraction("", "none", f"only blocks of {tags}, no Python")
    if code.strip().lower() in _NOTHING:
        return Extraction("", "none", f"the fenced block holds {code.strip()!r}")
    missing = "no block defines ModelNew"
    return Extraction(code, "fence", missing if python[-1].closed else f"{missing}; {_CUT_OFF}")


def _with_missing_pieces(blocks: list[_Block], chosen: int) -> str:
    code = blocks[chosen].code
    tree = _tree(code)
    if tree is None:
        return code
    earlier = [(block.code, _tree(block.code)) for block in blocks[:chosen] if block.is_python]
    supplied = {name for _, other in earlier if other for name in module_level_names(other)}
    whole = "\n".join([*(text for text, _ in earlier), code])
    return whole if unbound_names(tree) & supplied and _parses(whole) else code


def _split(text: str) -> tuple[list[_Block], str]:
    """Markdown's fenced blocks, and the text outside them. A fence that never closes ends with the text."""
    blocks: list[_Block] = []
    outside: list[str] = []
    inside: list[str] = []
    opening: re.Match[str] | None = None
    for line in re.split(r"(?<=\n)", text):
        fence = _FENCE.match(line.rstrip("\r\n"))
        if opening is None and fence and "`" not in fence[3]:
            opening, inside = fence, []
        elif opening is None:
            outside.append(line)
        elif fence and fence[2].startswith(opening[2]) and not fence[3].strip():
            blocks.append(_block(opening, inside, closed=True))
            opening = None
        else:
            inside.append(line)
    if opening is not None:
        blocks.append(_block(opening, inside, closed=False))
    return blocks, "".join(outside)


def _block(opening: re.Match[str], lines: list[str], closed: bool) -> _Block:
    indent = opening[1]
    code = "".join(line.removeprefix(indent) for line in lines)
    words = re.split(r"[\s{,:]+", opening[3].strip().strip("{").lower())
    return _Block(words[0].lstrip("."), code, closed)


def _is_program(text: str) -> bool:
    """Parses as Python and does something: a one-word refusal parses too."""
    tree = _tree(text)
    return tree is not None and any(not isinstance(node, ast.Expr) for node in tree.body)


def _tree(text: str) -> ast.Module | None:
    if len(text) > _PARSE_LIMIT_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except _PARSE_FAILURES:
        return None


def _parses(text: str) -> bool:
    return _tree(text) is not None
