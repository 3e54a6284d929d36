"""Answers that were paid for: one file per response, written once, never changed and never a rule's output.

``{folder}/{key}.json``, for a generator ``generations/{generator}/responses/``, where the key is a hash over what was
asked: problem, sample, prompt, model and settings. The endpoint's address is no part of it: an answer stays paid for
when its endpoint moves. The API key is in nothing that is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import Field, JsonValue

from kbverified import incoming
from kbverified.endpoint_settings import Settings
from kbverified.keys import CandidateKey
from kbverified.records.base import Record
from kbverified.records.files import read

# An answer of 8 MiB, more than which is not kept (endpoint_http), twice: its content and the whole of it. The rest is
# for what JSON escapes.
ROOM_BYTES = 24 << 20


class StoredResponse(Record):
    """One answer and what it answers."""

    schema_version: int = 1
    candidate: str
    """generator/suite/problem/sample; another caller's own name for what it asked."""
    prompt_sha256: str
    messages: tuple[dict[str, str], ...]
    model: str
    settings: Settings = Field(default_factory=dict)
    """What was to be sent beside model and messages."""
    request: dict[str, JsonValue] = Field(default_factory=dict)
    """What was sent beside messages, in the server's own names. Empty in files of before."""
    received_at: str
    """ISO 8601, UTC."""
    duration_s: float | None = Field(default=None, ge=0)
    """From sending the request that was answered to its answer's end."""
    attempts: int | None = Field(default=None, ge=1)
    """Requests that it took."""
    content: str | None
    """The answer's text. None: the model gave none."""
    refusal: str | None = None
    reasoning: str | None = None
    """What the server shows of it."""
    finish_reason: str | None = None
    served_model: str | None = None
    """The name under which the endpoint says it answered."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """As reported; None where the server reports nothing that can be a count."""
    counted_prompt_tokens: int | None = None
    counted_completion_tokens: int | None = None
    """As the budget counts them. None in files of before: what is reported."""
    note: str | None = None
    """What is odd about the answer: usage that cannot be, cut because too large, another model's name."""
    response_headers: dict[str, str] = Field(default_factory=dict)
    """Those that help to find a request again: ids, date, limits."""
    raw: dict[str, JsonValue]
    """The whole response body; of a streamed answer its pieces joined."""


def response_key(name: str | CandidateKey, prompt_sha256: str, model: str, settings: Settings) -> str:
    """Sha256 (hex) over everything that was asked."""
    tail = name.tail if isinstance(name, CandidateKey) else name
    return hashlib.sha256(json.dumps([tail, prompt_sha256, model, settings], sort_keys=True).encode()).hexdigest()


def response_folder(root: Path, generator: str) -> Path:
    return root / "generations" / generator / "responses"


def load(path: Path) -> StoredResponse | None:
    """The stored answer, None where there is none. Raises RecordError for a file that is not one."""
    try:
        return read(path, StoredResponse)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def room(path: Path) -> Iterator[Callable[[], None]]:
    """Find out before an answer is paid for that it could not be kept, and keep its room until it is there: what is
    handed out gives it up. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    incoming.sweep(path.parent)
    file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=incoming.PREFIX)

    def give_up() -> None:
        with contextlib.suppress(OSError):  # removed by somebody, say: that must not cost the answer
            file.close()

    try:
        incoming.hold(file.fileno())
        os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
        yield give_up
    finally:
        give_up()


def append(path: Path, response: StoredResponse) -> StoredResponse:
    """Store an answer where none is; returns the one that is stored then, which may be another process's.

    The file appears whole or not at all and is read-only. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(response.model_dump(mode="json"), indent=1, ensure_ascii=False)
    # A lone surrogate, legal in JSON's escapes, cannot be written as UTF-8: it becomes U+FFFD.
    data = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=incoming.PREFIX, suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            incoming.hold(fd)
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
