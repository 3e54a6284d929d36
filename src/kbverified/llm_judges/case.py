"""What an LLM judge is shown: a reference, a candidate, and what was measured. Never another judge's answer.

The candidate is hostile text. It stands between two lines with the number of the case, which is a hash over all that
stands there: no text can hold its own hash, so none can end its block, and the same case always gives the same prompt,
which an answer from the store can answer again. Within the block every line has a number before it, and every hidden
character is written out. What is measured comes as numbers and words of ours: no text of the candidate's is among it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from kbverified.llm_judges.labels import LABELS
from kbverified.llm_judges.visible import count_hidden, numbered, visible, without_comments
from kbverified.strict_templates import environment, explained

TEMPLATE = Path("workflow/prompts/llm_judge.jinja")
Messages = list[dict[str, str]]


class TooLong(ValueError):
    """The candidate is longer than a judge is shown."""


@dataclass(frozen=True)
class Case:
    """One candidate as all of its judges see it."""

    number: str
    """Of the blocks and of the answer: 32 hexadecimal digits."""
    reference: str
    candidate: str
    """Both as shown: lines numbered, hidden characters written out."""
    facts: Mapping[str, str]
    notes: tuple[str, ...]
    """What showing it has changed about the candidate."""


def make_case(reference: bytes, candidate: bytes, facts: Mapping[str, str], most_characters: int) -> Case:
    """The case of one candidate. Raises TooLong where it does not fit, comments left out."""
    shown, notes = _shown(candidate, most_characters)
    blocks = numbered(visible(_text(reference))), numbered(shown)
    number = hashlib.sha256("\0".join(("kbverified LLM judge", *blocks)).encode()).hexdigest()[:32]
    assert not any(number in block for block in blocks)  # a hash within what it is the hash of
    return Case(number, *blocks, facts, notes)


def _text(source: bytes) -> str:
    return source.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _shown(source: bytes, most: int) -> tuple[str, tuple[str, ...]]:
    text, notes = _text(source), []
    if len(text) > most:
        text = without_comments(text)
        notes.append("Its comments were left out, for it is very long.")
    if hidden := count_hidden(text):
        notes.append(f"It has {hidden} hidden characters (zero width, bidirectional, control), shown as <U+XXXX>.")
        text = visible(text)
    if len(text) > most:
        raise TooLong(f"{len(text)} characters, shown are at most {most}")
    return text, tuple(notes)


@cache
def _template(path: Path) -> jinja2.Template:
    with explained(path.parent, path.name, ()):
        return environment().from_string(path.read_text(encoding="utf-8"))


def template_sha256(path: Path = TEMPLATE) -> str:
    """Sha256 (hex) of the template's bytes. Raises FileNotFoundError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def messages(case: Case, path: Path = TEMPLATE, not_valid: str | None = None, attempt: int = 1) -> Messages:
    """The prompt: a message for the system and one for the user, from the template's two blocks of these names.

    ``not_valid``: why the answer to the previous attempt was none, in our own words. Of that answer itself nothing is
    sent back: it may quote the candidate outside of its block. Raises TemplateError, and ValueError for a template that
    lacks a block.
    """
    template = _template(path)
    values: dict[str, Any] = {"case": case, "labels": LABELS, "not_valid": not_valid, "attempt": attempt}
    if missing := {"system", "user"} - template.blocks.keys():
        raise ValueError(f"{path}: no block {', '.join(sorted(missing))}: it needs both, system and user")
    with explained(path.parent, path.name, values):
        return [
            {"role": role, "content": "".join(template.blocks[role](template.new_context(values))).strip() + "\n"}
            for role in ("system", "user")
        ]
