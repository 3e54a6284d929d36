"""The static view as columns of the kernel table: a candidate's source is read beside its records."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kbverified.keys import CandidateKey
from kbverified.static_view.reader import Reader


def static_columns(
    root: Path, key: CandidateKey, candidate_sha256: str | None, problem_sha256: str | None, reader: Reader
) -> tuple[dict[str, Any], dict[str, str | None]]:
    """Columns of one row, and the reasons of the groups ``static`` and ``static_operators``.

    The digests are those of what was judged, None where nothing was: another text is not described. Raises as
    Reader.describe, and OSError where a source that is there cannot be read.
    """
    path = key.source_path(root)
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        return _nothing(f"no {key.source_path(Path('.'))}")
    if candidate_sha256 is not None and hashlib.sha256(source).hexdigest() != candidate_sha256:
        return _nothing("the source is no longer the one that was judged")
    view = reader.describe(source, _problem(root, key, problem_sha256))
    flags = ", ".join(view.flags) or None
    if view.kind is None:
        columns, reasons = _nothing(view.why_null or "not described")
        return {**columns, "static_flags": flags}, reasons
    share = len(view.delegated) / len(view.problem_operators) if view.problem_operators else None
    columns = {
        "static_kind": view.kind,
        "static_language": ", ".join(view.languages),
        "static_delegated_share": share,
        "static_labels": ", ".join(view.labels) or None,
        "static_delegated": ", ".join(view.delegated) or None,
        "static_flags": flags,
    }
    return columns, {"static_operators": None if share is not None else "no torch operator is found in the problem"}


def _nothing(why: str) -> tuple[dict[str, Any], dict[str, str | None]]:
    return {}, {"static": why, "static_operators": why}


def _problem(root: Path, key: CandidateKey, sha256: str | None) -> bytes:
    """The problem's text; empty where it is not there or not what was judged."""
    try:
        text = key.problem_key.source_path(root).read_bytes()
    except FileNotFoundError:
        return b""
    return text if sha256 is None or hashlib.sha256(text).hexdigest() == sha256 else b""
