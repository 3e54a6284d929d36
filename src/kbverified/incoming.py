"""Files and folders on their way to their places: named ``.incoming-*``, locked by whoever writes them.

A killed process leaves its own behind. Who begins another beside it removes it: nobody holds it any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kbverified import file_lock

PREFIX = ".incoming-"
LOCK_NAME = "lock"
"""In a folder the file that is locked."""
YOUNG_S = 600.0
"""So young is left alone: it may be there and not be locked yet, or be of a machine whose locks do not hold here."""


def hold(fd: int) -> None:
    """Lock what is being written, until it is closed; without one where the file system has none: then nobody can tell
    that its writer is dead, and it stays."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """A folder in this one, held and removed in the end. Raises OSError."""
    sweep(folder)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    try:
        with open(made / LOCK_NAME, "wb") as lock:
            hold(lock.fileno())
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what dead processes have left in a folder."""
    for entry in os.scandir(folder):
        if not entry.name.startswith(PREFIX):
            continue
        path = Path(entry.path)
        with contextlib.suppress(OSError):  # another one's, or gone by now
            is_folder = entry.is_dir(follow_symlinks=False)
            old = time.time() - entry.stat(follow_symlinks=False).st_mtime > YOUNG_S
            if not old or file_lock.is_held(path / LOCK_NAME if is_folder else path):
                continue
            if is_folder:
                shutil.rmtree(path)
            else:
                path.unlink()
