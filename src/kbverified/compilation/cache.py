"""Build directories as a cache: bounded in bytes, the least recently used go first, never one that a job may load.

Every stage holds a shared lock on the directory it uses; a sweep removes only what it can lock alone and what has been
idle for a while, so that a run in progress does not lose what its compile stage made. Torch-free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kbverified.sandbox import reclaim

LIMIT_BYTES = 64 << 30
"""All build directories together. One candidate's takes 1 to 3 MB, the paper's 8,750 about 20 GB."""
TREES_LIMIT_BYTES = 8 << 30
"""All slim headers together (``slim_tree.py``). One toolchain's take some 50 MB, and 0.2 GB for each set of flags."""
IDLE_S = 24 * 3600.0
"""What was used within this time stays, whatever the limit: its later stages may still be waiting for a device."""
SWEEP_EVERY_S = 600.0
"""A sweep looks at every file; between two of them the limit may be exceeded."""
LIMIT_VARIABLE = "KBV_BUILD_CACHE_GIB"
"""Environment variable that sets another limit (in GiB, may be a fraction)."""

_DOOMED = ".evicted-"


def limit_bytes() -> int:
    """The limit in force. Raises ValueError where the variable is no number."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return LIMIT_BYTES
    try:
        return int(float(text) * (1 << 30))
    except (ValueError, OverflowError):
        raise ValueError(f"{LIMIT_VARIABLE}={text!r} is no number of GiB: correct or unset it") from None


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep a build directory from being swept, and note that it was used now. It need not exist yet."""
    with _opened(folder) as fd:
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.utime(fd)
        try:
            yield
        finally:
            os.utime(fd)


def sweep(root: Path, limit: int | None = None, idle_s: float = IDLE_S, every_s: float = SWEEP_EVERY_S) -> list[Path]:
    """Remove directories, the least recently used first, until those below ``root`` fit the limit; returns them.

    Slim headers, which are made again where they are missing, have a limit of their own. ``root``: the build root.
    Nothing is done where another sweep runs, or ran less than ``every_s`` seconds ago.
    """
    top = root.absolute() / "candidates"
    top.mkdir(parents=True, exist_ok=True)
    stamp = top / ".swept"
    # A time in the future is that of a clock which was put back since: it says nothing.
    if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < every_s:
        return []
    fd = os.open(stamp, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(fd)
        builds = _sweep(_entries(top), limit_bytes() if limit is None else limit, idle_s)
        trees = root.absolute() / "pch"
        return [*builds, *_sweep(_folders(trees), TREES_LIMIT_BYTES, idle_s)] if trees.is_dir() else builds
    except BlockingIOError:
        return []
    finally:
        os.close(fd)


@dataclass(frozen=True, order=True)
class _Entry:
    used: float
    folder: Path
    size_bytes: int


def _sweep(found: Iterable[_Entry], limit: int, idle_s: float) -> list[Path]:
    entries = sorted(found)
    excess = sum(entry.size_bytes for entry in entries) - limit
    removed: list[Path] = []
    for entry in entries:
        if excess <= 0 or time.time() - entry.used < idle_s:
            break
        if _remove(entry.folder, entry.used):
            removed.append(entry.folder)
            excess -= entry.size_bytes
    return removed


def _entries(top: Path) -> Iterator[_Entry]:
    """Every build directory with its size; what an earlier sweep could not finish is finished on the way."""
    for shelf in sorted(top.iterdir()):
        if shelf.is_dir() and not shelf.is_symlink():
            yield from _folders(shelf)


def _folders(shelf: Path) -> Iterator[_Entry]:
    for folder in sorted(shelf.iterdir()):
        if folder.is_symlink() or not folder.is_dir():
            continue
        if folder.name.startswith(_DOOMED):
            _delete(folder)
        else:
            yield _Entry(_last_use(folder), folder, _size_bytes(folder))


def _last_use(folder: Path) -> float:
    try:
        return _lock_path(folder).stat().st_mtime
    except OSError:
        return folder.stat().st_mtime  # made before directories were locked for use


def _size_bytes(folder: Path) -> int:
    """Bytes on disk. What a hostile build left is counted once, however often it is linked, and not followed.

    Folders deeper than a path can name count as nothing; ``_delete`` removes them all the same.
    """
    size = 0
    seen: set[tuple[int, int]] = set()
    pending = [os.fspath(folder)]
    while pending:
        place = pending.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if (found.st_dev, found.st_ino) not in seen:
                    seen.add((found.st_dev, found.st_ino))
                    size += found.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return size


def _delete(folder: Path) -> None:
    """Remove a tree of any depth and any modes; what cannot be removed now is tried in the next sweep."""
    with contextlib.suppress(OSError):
        reclaim(folder)  # opens what is closed, and removes what is too deep for a path
        shutil.rmtree(folder)


def _remove(folder: Path, used: float) -> bool:
    """Remove one directory unless somebody uses it, or has since it was looked at."""
    existed = _lock_path(folder).exists()
    with _opened(folder) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if existed and os.fstat(fd).st_mtime > used:
            return False
        doomed = folder.with_name(f"{_DOOMED}{folder.name}-{os.getpid()}")
        try:
            folder.rename(doomed)  # at once, so that no half of it is ever found
        except OSError:
            return False
    _delete(doomed)
    return True


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    path = _lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _lock_path(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.used"
