"""Answers that were paid for: one file per response, written once, never changed and never a rule's output.

``generations/{generator}/responses/{key}.json``, where the key is a hash over what was asked: problem, sample, prompt,
model and settings. The endpoint's address and the API key are no part of it and are never stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import Field

from kbverified.keys import CandidateKey
from kbverified.records import Record, read

# Above any answer: 128 k tokens of text, twice (content and raw), escaped.
ROOM_BYTES = 2 << 20

Settings = dict[str, str | int | float | bool | None]


class StoredResponse(Record):
    """One answer and what it answers."""

    schema_version: int = 1
    candidate: str
    """generator/suite/problem/sample."""
    prompt_sha256: str
    messages: tuple[dict[str, str], ...]
    model: str
    settings: Settings = Field(default_factory=dict)
    received_at: str
    """ISO 8601, UTC."""
    content: str | None
    """The answer's text. None: the model gave none."""
    refusal: str | None = None
    finish_reason: str | None = None
    served_model: str | None = None
    """The name under which the endpoint says it answered."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    raw: dict[str, Any]
    """The whole response body."""


def response_key(key: CandidateKey, prompt_sha256: str, model: str, settings: Settings) -> str:
    """Sha256 (hex) over everything that was asked."""
    asked = [key.tail, prompt_sha256, model, settings]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def response_path(root: Path, generator: str, response_key: str) -> Path:
    return root / "generations" / generator / "responses" / f"{response_key}.json"


def load(path: Path) -> StoredResponse | None:
    """The stored answer, None where there is none. Raises RecordError for a file that is not one."""
    try:
        return read(path, StoredResponse)
    except FileNotFoundError:
        return None


def require_room(path: Path) -> None:
    """Find out before an answer is paid for that it could not be kept. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".incoming-") as file:
        file.write(bytes(ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())


def append(path: Path, response: StoredResponse) -> StoredResponse:
    """Store an answer where none is; returns the one that is stored then, which may be another process's.

    The file appears whole or not at all and is read-only. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(response.model_dump(mode="json"), indent=1, ensure_ascii=False)
    # A lone surrogate, legal in JSON's escapes, cannot be written as UTF-8: it becomes U+FFFD.
    data = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".incoming-", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o444)
        _rename_to_new(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return read(path, StoredResponse)


def _rename_to_new(temporary: str, path: Path) -> None:
    """Give the file its name unless that is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # no hard links on this file system: nearly as good
        if not path.exists():
            os.rename(temporary, path)
