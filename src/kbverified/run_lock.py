"""A lock that dies with its process, so that a killed run can simply be started again.

Snakemake marks a directory as locked with plain files; after ``kill -9`` or a power cut they stay, and the next run
refuses to start until somebody runs ``snakemake --unlock``. Each run therefore also holds a shared ``flock``, which
the kernel releases at its death. Whoever gets it exclusively knows that no other run is alive, and clears the files.
Runs side by side on different generators keep working: they share the lock, and then nothing is cleared.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

_held: list[int] = []


def hold(folder: Path) -> bool:
    """Take the run lock under Snakemake's folder until this process ends; True where stale lock files were cleared.

    Never raises: on a file system without ``flock``, or one that is read-only, Snakemake's own lock files are all
    there is, as without this module.
    """
    try:
        folder.mkdir(exist_ok=True)
        # Not inheritable: a job that outlives a killed run must not keep the next one from starting.
        descriptor = os.open(folder / "kbverified.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return False
    _held.append(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        alone = False
    else:
        alone = True
    cleared = alone and _clear(folder / "locks")
    try:
        # Waits for a moment at most, while another run that starts now clears: without the lock, a third run would
        # take this one for dead. A file system without flock refuses at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        pass
    return cleared


def _clear(locks: Path) -> bool:
    if not locks.is_dir() or not any(locks.iterdir()):
        return False
    shutil.rmtree(locks, ignore_errors=True)
    locks.mkdir(exist_ok=True)
    return True
