"""What can be judged of a candidate by its source alone, without running it."""

from __future__ import annotations

import codecs
import io
import json
import signal
import subprocess
import sys
import tokenize
from typing import NamedTuple, cast

from kbverified import parse_check
from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.records.base import Verdict

# Far above the child's own limit on CPU seconds: a machine that stalls is no verdict on the candidate.
WALL_LIMIT_S = 300.0


class SourceVerdict(NamedTuple):
    """A failure that shows in the source alone."""

    verdict: Verdict
    detail: str


def classify(source: bytes) -> SourceVerdict | None:
    """Judge a candidate by its source alone, without running it. None: nothing to object to yet.

    The parsing happens in a process of its own, under limits (parse_check). Raises OSError or
    subprocess.TimeoutExpired where that process could not do its work: a fault, not a verdict.
    """
    if len(source) > CANDIDATE_SIZE_LIMIT_BYTES:
        return SourceVerdict("unreadable_source", f"{len(source)} bytes, the limit is {CANDIDATE_SIZE_LIMIT_BYTES}")
    if source.strip().lower() in (b"", b"none", b"null"):
        return SourceVerdict("no_code", "the source is only 'None'" if source.strip() else "the source is empty")
    if b"\0" in source:
        return SourceVerdict("unreadable_source", f"NUL byte at byte {source.index(0)}")
    try:
        source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return SourceVerdict("unreadable_source", f"not UTF-8 at byte {error.start}")
    try:  # what Python runs has to be what parsers and readers are shown (PEP 263)
        lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as Python's own reader has them
        encoding, _ = tokenize.detect_encoding(io.BytesIO(lines).readline)
    except SyntaxError as error:
        return SourceVerdict("syntax_error", str(error.msg))
    same = ("utf-8", "utf-8-sig", "ascii", *(["iso8859-1"] if source.isascii() else []))
    if codecs.lookup(encoding).name not in same:
        return SourceVerdict("unreadable_source", f"it declares the encoding {encoding}; read is UTF-8 alone")
    return _parse(source)


def _parse(source: bytes) -> SourceVerdict | None:
    command = [sys.executable, "-I", "-S", "-W", "ignore", parse_check.__file__]
    done = subprocess.run(command, input=source, capture_output=True, timeout=WALL_LIMIT_S)
    if done.returncode == 0:
        answer = json.loads(done.stdout)
        return SourceVerdict(cast(Verdict, answer[0]), answer[1]) if answer else None
    if done.returncode == -signal.SIGKILL:
        raise OSError("the process that parses a candidate was killed; is the machine out of memory?")
    limits = f"{parse_check.CPU_LIMIT_S} s and {parse_check.MEMORY_LIMIT_BYTES >> 30} GiB"
    return SourceVerdict("syntax_error", f"Python cannot parse it within {limits}")
