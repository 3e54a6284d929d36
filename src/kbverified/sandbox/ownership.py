"""Handing folders to a worker and taking them back.

A worker of level full has a uid of its own, so what it may write must belong to it while it runs. Afterwards its
files belong to a uid that no longer exists, with whatever modes a hostile program left.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# No builder comes near either; the system's own limit on a path is 4096 bytes, a name may have 255 of them.
_MOST_LEVELS = 64
_LONGEST_PATH_BYTES = 2048


def adopt(path: str | Path, uid: int, gid: int) -> None:
    """Give a tree to a uid, without following links. Raises OSError.

    Only for a tree into which nobody else writes at the time.
    """
    os.chown(path, uid, gid, follow_symlinks=False)
    if not os.path.isdir(path) or os.path.islink(path):
        return
    for _, folders, files, folder_fd in os.fwalk(path, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=folder_fd, follow_symlinks=False)


def reclaim(path: str | Path) -> list[str]:
    """Take a tree back from a dead worker: owned by the judge, readable by all, writable by its owner alone.

    Folders become 0755, files 0644, or 0755 where somebody could execute them. Links stay as they are (they are
    never followed here). Removed are sockets, pipes, device nodes, and folders so deep that no path leads there.
    Returns what was removed. For a tree whose worker's family is dead. Raises OSError.
    """
    root = os.fspath(path)
    removed: list[str] = []
    _take(root)
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        for name in _entries(folder):
            kind = _take(name)
            if stat.S_ISDIR(kind) and (depth >= _MOST_LEVELS or len(os.fsencode(name)) > _LONGEST_PATH_BYTES):
                _remove(name, root)
                removed.append(name)
            elif stat.S_ISDIR(kind):
                pending.append((name, depth + 1))
            elif not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
                os.unlink(name)
                removed.append(name)
    return removed


def _entries(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries]


def _remove(folder: str, root: str) -> None:
    """Remove a tree of any depth: folders in it are first moved up to the root, so that every path stays short."""
    pending = [folder]
    moved = 0
    while pending:
        current = pending.pop()
        _take(current)
        for name in _entries(current):
            if stat.S_ISDIR(os.lstat(name).st_mode):
                _take(name)  # moving a folder writes into it
                while os.path.lexists(place := os.path.join(root, f".removed-{moved}")):
                    moved += 1
                os.rename(name, place)
                pending.append(place)
            else:
                os.unlink(name)
        os.rmdir(current)


def _take(path: str) -> int:
    """Own one entry and give it its plain mode. Returns its type bits."""
    status = os.lstat(path)
    if os.geteuid() == 0 and (status.st_uid, status.st_gid) != (0, 0):
        os.chown(path, 0, 0, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        os.chmod(path, 0o755)
    elif stat.S_ISREG(status.st_mode):
        os.chmod(path, 0o755 if status.st_mode & 0o111 else 0o644)
    return stat.S_IFMT(status.st_mode)
