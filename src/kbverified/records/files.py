"""Records as files: read and validated, written so that a kill leaves none or a whole one."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from kbverified.records.base import Record

R = TypeVar("R", bound=Record)


class RecordError(ValueError):
    """A record file that is not what it should be. The message names file, field and value."""


def read(path: Path, model: type[R]) -> R:
    """Read and validate one record. Raises RecordError with file, field and value, FileNotFoundError if missing."""
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole record)"
        value = repr(first.get("input"))[:80]
        raise RecordError(
            f"{path}: field {field}: {first['msg']} (value {value}). Delete the file and rerun to make it again."
        ) from None


def write(path: Path, record: Record) -> None:
    """Write a record under a temporary name and rename it: a kill leaves none or a whole one. Raises OSError."""
    write_text(path, json.dumps(record.model_dump(mode="json"), indent=1, sort_keys=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """``write_bytes`` of text as UTF-8. Raises OSError."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Atomically replace the file at path, making its folder where missing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too leaves no temporary file behind
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
