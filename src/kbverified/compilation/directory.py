"""The build directory of one candidate: content-addressed, outside results, writable only while it is being built.

Its name derives from the candidate's bytes and the toolchain, so that no build can collide with another's, and an
edit, another compiler, torch or architecture never meets an old build.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from kbverified.compilation.toolchain import Toolchain
from kbverified.sandbox import reclaim

_ROOM_BYTES = 64 << 20
"""A small extension with its objects takes about a third of this."""


def build_directory(root: Path, candidate_sha256: str, toolchain: Toolchain) -> Path:
    """Path of a candidate's build directory below the build root (not created)."""
    identity = json.dumps([candidate_sha256, toolchain.identity()], sort_keys=True)
    name = hashlib.sha256(identity.encode()).hexdigest()
    return root.absolute() / "candidates" / name[:2] / name[2:34]


def disk_is_full(directory: Path) -> bool:
    """Whether a build that fails here may fail for want of room: what the compiler says is the candidate's text."""
    return shutil.disk_usage(directory).free < _ROOM_BYTES


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Hold a build directory: identical candidates (duplicate samples) build one after the other.

    What a judge that was killed left in a worker's hands is taken back first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with exclusive(directory.parent / f"{directory.name}.lock", 0o600):
        reclaim(directory)
        yield directory


@contextlib.contextmanager
def exclusive(lock: Path, mode: int) -> Iterator[None]:
    """Hold a lock file, made with these permissions where it is missing, alone. Raises OSError."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
