"""What a candidate's failure says, cut to what its author needs: compilers' errors, his own lines of a traceback. Pure.

The whole text is in the record and in the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORT = 6
"""Texts of at most so many lines stay as they are."""
ERRORS_SHOWN = 3
LINES_OF_AN_ERROR = 4

_ERROR = re.compile(r"(^|[:\s])(fatal )?error( [A-Z]*\d+)?:", re.IGNORECASE)
_COPY = re.compile(r"[^\s\"']*/generations/check/[^\s\"']*?/0\.py")
_BUILD_FOLDER = re.compile(r"[^\s\"']*/candidates/[0-9a-f]{2}/[0-9a-f]+/[0-9a-f]+/")


def brief(text: str, candidate: str) -> list[str]:
    """Lines to show of a failure's text. ``candidate`` is how its author calls the file."""
    named = _BUILD_FOLDER.sub("", _COPY.sub(lambda _: candidate, text))
    lines = [line.rstrip() for line in named.splitlines() if line.strip()]
    if len(lines) <= SHORT:
        return lines
    kept = _errors(lines) or _traceback(lines, candidate)
    return [*kept, f"... of {len(lines)} lines; --json and --keep have all of them"]


def _errors(lines: list[str]) -> list[str]:
    """The first compilers' errors, each with what they point at; the same one once, however often it was printed."""
    found: dict[str, int] = {}
    for i, line in enumerate(lines):
        # Not the traceback's last line (``RuntimeError: ...``), which quotes the compiler.
        if _ERROR.search(line) and not re.match(r"[\w.]*(Error|Failed|Exception)\b", line):
            found.setdefault(line, i)
    shown = []
    for start in list(found.values())[:ERRORS_SHOWN]:
        shown.append(lines[start])
        for line in lines[start + 1 : start + LINES_OF_AN_ERROR]:
            if not line.startswith(" "):
                break
            shown.append(line)
    return shown


def _traceback(lines: list[str], candidate: str) -> list[str]:
    """The candidate's own frames and the exception; without a traceback the first and the last lines."""
    own: list[str] = []
    for i, line in enumerate(lines):
        if line.lstrip().startswith("File ") and candidate in line:
            own += [line, *_code_of(lines[i + 1 : i + 3])]
    ends = [line for line in lines if re.match(r"[\w.]+: |[\w.]*(Error|Exception|Interrupt|Exit)$", line)]
    if own and ends:
        return [*own, ends[-1]]
    return [*lines[: SHORT // 2], "...", *lines[-SHORT // 2 :]]


def _code_of(lines: Iterable[str]) -> list[str]:
    """The line of code that a frame shows, and the marks below it."""
    return [line for line in lines if line.startswith("    ")]
