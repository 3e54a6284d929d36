"""Which headers can a source notice? Torch-free; runs in the candidate's worker, over an index that it only reads.

The index (``slim_index.py``) lists every name that torch's full headers declare at namespace scope and the slim ones
do not, with the header and the namespace. A header that declares no name which the source could look up cannot change
what the source means, and is left out. What cannot be decided simply, or needs much, gets the full headers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

ENTRIES = {
    "torch/extension.h": "extension",
    "torch/torch.h": "extension",
    "torch/all.h": "extension",
    "torch/types.h": "types",
}
"""Headers that have a slim twin, and the larger of the two sets of declarations that they promise.

torch.h includes extension.h in builds of torch's own builder; all.h lacks the Python half, which the choice knows.
"""
MAX_HEADERS = 60
"""A source that needs more than these is not much cheaper with slim headers."""

_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)'""", re.DOTALL
)
_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include|import|include_next)[ \t]*(?:<([^>\n]+)>|"([^"\n]+)"|(\S+))', re.MULTILINE
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|\d[\w.]*|\S")
_KNOWN = re.compile(
    r"(?:ATen|c10|torch|cub)/"
    r"|(?:cuda|cuda_runtime|cuda_runtime_api|cuda_fp16|cuda_bf16|cuda_fp8|cublas|cublas_v2|cublasLt|cudnn|curand"
    r"|curand_kernel|cusparse|cusolverDn|cufft|cooperative_groups|device_launch_parameters|mma|math_constants)\.h$"
)
"""Headers that are torch's or CUDA's also where quotes stand around them; any other may be the candidate's own."""
_RAISED = frozenset(("torch", "at", "c10"))
"""torch:: sees at:: and at:: sees c10:: by using-directives in torch's own headers."""


@dataclass(frozen=True)
class Choice:
    """What one source file is compiled with."""

    headers: tuple[str, ...]
    """To include after the base, in this order."""
    text: str
    """C++ to append after them: torch's factories and using-declarations, as torch's headers write them."""
    python: bool
    """Whether the base is the one with pybind11."""


class NeedsFull(Exception):
    """The source has to be read with torch's full headers; the message says why."""


def choose(source: str, index: dict[str, Any], python: bool) -> Choice:
    """The slim headers for one source. ``python``: start from the base with pybind11 (bindings, precompiled).

    Raises NeedsFull.
    """
    code = _COMMENT_OR_STRING.sub(_blank, source)
    entry = _entry(source, index)
    if re.search(r"##|\bAT_PER_OPERATOR_HEADERS\b|\b_Pragma\b|\b__has_include\b", code):
        raise NeedsFull("the source pastes tokens or asks how torch's headers are made")
    wanted = _wanted(code, index, entry)
    # Only what torch/types.h does not include calls for the bindings' base; the rest can be had one by one.
    if entry == "extension":
        python = python or any(known and not index["headers"][number]["types"] for number, known in wanted)
    else:
        python = False
    found = {number for number, known in wanted if not (known and python)}
    return _collect(found, code, index, python)


def _blank(match: re.Match[str]) -> str:
    return ' "" ' if match.group()[0] not in "/" else " "


def _entry(source: str, index: dict[str, Any]) -> str:
    """Which of the two sets of declarations the source includes. Raises NeedsFull."""
    entry = ""
    for angled, quoted, computed in _INCLUDE.findall(source):
        name = angled or quoted
        if computed:
            raise NeedsFull(f"a computed #include ({computed[:80]})")
        kind = ENTRIES.get(name, "")
        if kind == "extension" or (kind and not entry):
            entry = kind
        if quoted and not kind and not _KNOWN.match(quoted):
            raise NeedsFull(f"a file of the candidate's own ({quoted[:80]})")
        if name.startswith(tuple(index["unknown"])):
            raise NeedsFull(f"{name[:80]} has not been looked into")
    if not entry:
        raise NeedsFull("none of torch's general headers is included")
    return entry


def _wanted(code: str, index: dict[str, Any], entry: str) -> set[tuple[int, bool]]:
    """{(number of a header that declares a name which the source could look up, whether the Python base has it)}."""
    body = _INCLUDE.sub("", code)
    words = frozenset(re.findall(r"[A-Za-z_]\w*", body))
    opened = frozenset(
        re.findall(r"\busing\s+namespace\s+(?:\w+\s*::\s*)*(\w+)|\bnamespace\s+(?:\w+\s*::\s*)*(\w+)\s*\{", body)
    )
    spaces = {word for pair in opened for word in pair if word}
    spaces |= {target for word in spaces for target in index["aliases"].get(word, ())}
    if spaces & _RAISED:
        spaces |= _RAISED
    # A macro may call what it is given, an alias may stand for any namespace: then every mention counts.
    anywhere = bool(re.search(r"^[ \t]*#[ \t]*define[ \t]+\w+\(", body, re.MULTILINE)) or bool(
        re.search(r"\bnamespace\s+\w+\s*=", body)
    )
    names, headers, namespaces = index["names"], index["headers"], index["namespaces"]
    searched = index["searched"]
    spaces |= {further for word in tuple(spaces) for further in searched.get(word, ())}
    found: set[tuple[int, bool]] = set()
    for mention in sorted(_mentions(body)):
        join, _, name, called = mention
        if join in (".", "->"):
            found.update((number, False) for number in index["methods"].get(name, ()))
        for number, space, known in names.get(name, ()):
            if entry == "types" and not headers[number]["types"]:
                continue
            scopes = set(index["aliases"].get(mention[1], (mention[1],)))
            for scope in scopes.union(*(searched.get(one, ()) for one in scopes)):
                if _reaches(namespaces[space], join, scope, called, spaces, words, anywhere):
                    found.add((number, bool(known)))
    return found


def _mentions(code: str) -> set[tuple[str, str, str, bool]]:
    """{(``::``, ``.``, ``->`` or nothing, the name before ``::``, the name, whether ``(`` or ``<`` follows)}."""
    found: set[tuple[str, str, str, bool]] = set()
    tokens = ["", "", *_TOKEN.findall(code), ""]
    for before, join, name, after in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if name[:1].isalpha() or name[:1] == "_":
            scope = before if join == "::" and (before[:1].isalpha() or before[:1] == "_" or before == ">") else ""
            found.add((join if join in ("::", ".", "->") else "", scope, name, after in ("(", "<")))
    return found


def _reaches(
    space: dict[str, Any],
    join: str,
    scope: str,
    called: bool,
    spaces: set[str],
    words: frozenset[str],
    anywhere: bool,
) -> bool:
    """Whether a mention could find a declaration in this namespace."""
    path, last = space["path"], space["last"]
    if path in ("", "#"):  # a macro or a global name
        return True
    if anywhere:
        return space["types"] or last in words
    if join in (".", "->") or scope == ">":  # a member
        return False
    if join == "::" and scope:
        return scope == last or (scope in _RAISED and path in _RAISED)
    if last in spaces:
        return True
    return called and not join and space["types"]  # found through the types of its arguments


def _collect(found: set[int], code: str, index: dict[str, Any], python: bool) -> Choice:
    """Headers and text for a set of wanted headers, with what these need in turn. Raises NeedsFull."""
    headers, functions = index["headers"], index["functions"]
    includes: dict[str, int] = {}
    texts: list[str] = []
    for number in sorted(found, key=lambda n: (headers[n]["rank"], headers[n]["path"])):
        header = headers[number]
        if header["kind"] == "function":
            function = functions.get(header["path"])
            if function is None:
                raise NeedsFull(f"{header['path']} is declared in a way that was not foreseen")
            texts.append(function["text"])
            for needed in function["headers"]:
                includes.setdefault(needed, header["rank"])
        elif header["kind"] == "full":
            raise NeedsFull(f"{header['path']} declares a name of the source")
        else:
            includes.setdefault(header["path"], header["rank"])
    if len(includes) > MAX_HEADERS:
        raise NeedsFull(f"{len(includes)} headers declare names of the source")
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    texts += [text for name in sorted(words & set(index["usings"])) for text in index["usings"][name]]
    return Choice(tuple(sorted(includes, key=lambda path: (includes[path], path))), "\n".join(texts), python)
