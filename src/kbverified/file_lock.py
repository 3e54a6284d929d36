"""Locks between processes: ``flock`` on a file, which the kernel releases when its holder dies.

On NFS the kernel turns it into a lock of the server's, so that it holds between machines; where the mount says
``nolock`` or ``local_lock``, it holds on one machine only (``local_only`` tells). It needs the file open for writing
there, which it is. A file system without locks raises OSError.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "glusterfs", "fuse.sshfs", "beegfs")
_SHARED_LOCKS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "gpfs")


class Held:
    """A lock that is held."""

    def __init__(self, path: Path, fd: int):
        self._path = path
        self._fd = fd

    def remove(self) -> None:
        """Remove the file, still holding it: whoever waits for it finds out and takes its successor."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def held(path: Path) -> Iterator[Held]:
    """Hold the lock at path, waiting for it. Raises OSError."""
    lock = None
    while lock is None:
        lock = _take(path, 0)
    try:
        yield lock
    finally:
        lock.close()


def take_if_free(path: Path) -> Held | None:
    """The lock at path, to be closed; None where somebody holds it. Raises OSError."""
    return _take(path, fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock at path, this process included."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _take(path: Path, flags: int) -> Held | None:
    """None: held by another, or removed while it was waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | flags)
        if os.path.exists(path) and os.path.samestat(os.fstat(fd), os.stat(path)):
            return Held(path, fd)
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(fd)
        raise OSError(error.errno, f"{error.strerror}: this file system has no flock", str(path)) from None
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def local_only(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Why locks in a folder hold on this machine only, though its file system is shared; None where that is not so."""
    best: tuple[int, str, str] = (0, "", "")
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    where = str(folder.resolve())
    for line in lines:
        left, _, right = line.partition(" - ")
        point, (kind, _, options) = left.split()[4].replace("\\040", " "), right.split(None, 2)
        inside = point == "/" or where == point or where.startswith(point + "/")
        if inside and len(point) >= best[0]:
            best = (len(point), kind, f"{left.split()[5]},{options}")
    _, kind, options = best
    if kind not in _NETWORK:
        return None
    words = options.replace(" ", ",").split(",")
    off = [word for word in words if word in ("nolock", "local_lock=all", "local_lock=flock", "localflock", "noflock")]
    if off or (kind not in _SHARED_LOCKS and "flock" not in words):
        return f"{kind}, {off[0] if off else 'without flock'}"
    return None
