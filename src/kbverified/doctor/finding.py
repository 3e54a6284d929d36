"""One line of what ``doctor`` finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["ok", "warn", "fail"]
GIB = 1 << 30


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it stands, and what to do where it does not stand well."""

    name: str
    status: Status
    value: str
    todo: str | None = None

    def __post_init__(self) -> None:
        if (self.status == "ok") != (self.todo is None):
            raise ValueError(f"finding {self.name}: status {self.status} and what to do do not fit: {self.todo!r}")


def ok(name: str, value: str) -> Finding:
    return Finding(name, "ok", value)


def warn(name: str, value: str, todo: str) -> Finding:
    """It works, and something is worse than it could be."""
    return Finding(name, "warn", value, todo)


def fail(name: str, value: str, todo: str) -> Finding:
    """It does not work."""
    return Finding(name, "fail", value, todo)


def look(name: str, how: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Findings of one look. What cannot be looked at is a finding too: a doctor that ends half-way helps nobody."""
    try:
        return list(how())
    except Exception as error:
        text = f"could not be looked at: {type(error).__name__}: {error}"
        return [warn(name, text, "report this, with the machine's kind")]


def size(nbytes: int | None) -> str:
    """Bytes in GiB, for a reader."""
    return "unknown" if nbytes is None else f"{nbytes / GIB:.1f} GiB"


def nearest(folder: Path) -> Path:
    """The folder, or the first one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def room(name: str, folder: Path, least_bytes: int, comfortable_bytes: int, purpose: str) -> Finding:
    """Free space of the file system of a folder, which need not be there yet. Raises OSError."""
    free = shutil.disk_usage(nearest(folder)).free
    value = f"{folder}: {size(free)} free"
    if free < least_bytes:
        return fail(name, value, f"make room: {purpose}")
    if free < comfortable_bytes:
        return warn(name, value, f"{size(comfortable_bytes)} are better: {purpose}")
    return ok(name, value)
