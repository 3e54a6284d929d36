"""A worker's own file system: a small root of its own, with read-only views of what it needs and nothing else.

Runs in a fresh mount namespace, in the process that becomes the worker, before it gives up its privileges.
"""

from __future__ import annotations

import errno
import os
import stat

from kbverified.sandbox import linux

_STAGING = "/tmp"  # covered by the new root for a moment, in this mount namespace only
_OLD = "/old"
_NEW = "/new"
_DEVICE_NODES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_FD_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_MOST_FILES = 1 << 18  # in a worker's /tmp: each takes memory too, also an empty one
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV


def enter_new_root(
    read: list[str],
    write: list[str],
    devices: list[str],
    links: list[tuple[str, str]],
    temporary_bytes: int,
    hide_processes: bool,
    ids: tuple[int, int],
) -> None:
    """Build the view and make it the root; the old one is gone afterwards. Raises OSError.

    ``read`` and ``write`` are real paths, bound at themselves; ``links`` are the other names that lead to them.
    ``hide_processes``: /proc shows only what the worker's uid owns. ``ids``: uid and gid to name in /etc/passwd.
    """
    os.umask(0o022)  # whatever the judge's: the worker's uid has to pass through the folders made here
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", _STAGING, "tmpfs", _PLAIN, "size=16m,mode=0755")
    os.chdir(_STAGING)
    os.mkdir(_OLD[1:])
    os.mkdir(_NEW[1:])
    linux.pivot_root(".", _OLD[1:])
    os.chdir("/")
    # All of the old tree is now at /old, with nothing of it covered.
    linux.mount("tmpfs", _NEW, "tmpfs", _PLAIN, "size=16m,mode=0755")
    _make_standard_folders(temporary_bytes, hide_processes)
    _bind_views(read, write)
    _write_accounts(ids)
    for node in (*_DEVICE_NODES, *devices):
        _bind(node, 0)
    for name, target in _FD_LINKS.items():
        os.symlink(target, f"{_NEW}/dev/{name}")
    for name, target in sorted(links, key=lambda link: link[0].count("/")):
        _link(name, target)
    os.chdir(_NEW)
    linux.pivot_root(".", ".")  # the old root is now stacked on the new one: see pivot_root(2)
    linux.unmount_detached(".")
    os.chdir("/")
    # Mounts below keep their own mode: a remount is of one mount.
    linux.mount("none", "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _PLAIN)
    linux.mount("none", "/dev", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)


def _make_standard_folders(temporary_bytes: int, hide_processes: bool) -> None:
    for name in ("proc", "dev", "tmp", "var", "var/tmp", "etc", "run"):
        os.mkdir(f"{_NEW}/{name}")
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = f"size={min(temporary_bytes, memory_bytes // 4)},nr_inodes={_MOST_FILES},mode=1777"
    linux.mount("tmpfs", f"{_NEW}/tmp", "tmpfs", _PLAIN, size)
    linux.mount(f"{_NEW}/tmp", f"{_NEW}/var/tmp", None, linux.MS_BIND)
    linux.mount("tmpfs", f"{_NEW}/dev", "tmpfs", linux.MS_NOSUID, "size=1m,mode=0755")
    os.mkdir(f"{_NEW}/dev/shm")
    size = f"size={min(temporary_bytes, memory_bytes // 4) // 4},nr_inodes={_MOST_FILES},mode=1777"
    linux.mount("tmpfs", f"{_NEW}/dev/shm", "tmpfs", _PLAIN, size)
    linux.mount(
        "proc",
        f"{_NEW}/proc",
        "proc",
        _PLAIN | linux.MS_NOEXEC,
        "hidepid=2" if hide_processes else None,
    )


def _bind_views(read: list[str], write: list[str]) -> None:
    """Bind from the root downwards, so that what is writable inside something readable comes on top of it."""
    modes = dict.fromkeys(read, linux.MS_RDONLY)
    modes.update(dict.fromkeys(write, 0))
    for path in sorted(modes, key=lambda p: p.count("/")):
        parent = os.path.dirname(path)
        while parent not in modes and parent != "/":
            parent = os.path.dirname(parent)
        if modes.get(parent) != modes[path]:
            _bind(path, modes[path] | _PLAIN)


def _bind(path: str, attributes: int) -> None:
    """Show one path of the old tree in the new one, with all mounts below it."""
    target = _NEW + path
    if stat.S_ISDIR(os.stat(_OLD + path).st_mode):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o644))
    linux.mount(_OLD + path, target, None, linux.MS_BIND | linux.MS_REC)
    attributes |= linux.MS_NOSUID
    try:
        linux.set_mount_attributes(target, attributes)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        _remount_each(target, attributes)


def _remount_each(target: str, attributes: int) -> None:
    """set_mount_attributes() for kernels before 5.12: a remount sets all flags of one mount, so read them first."""
    known = {"ro": linux.MS_RDONLY, "nosuid": linux.MS_NOSUID, "nodev": linux.MS_NODEV, "noexec": linux.MS_NOEXEC}
    with open("/old/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for fields in mounts:
        point = fields[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
        if point == target or point.startswith(target + "/"):
            flags = attributes
            for option in fields[5].split(","):
                flags |= known.get(option, 0)
            linux.mount("none", point, None, linux.MS_REMOUNT | linux.MS_BIND | flags)


def _link(name: str, target: str) -> None:
    """Let another name of a bound path lead to it, where that name is not there already."""
    place = _NEW + name
    if os.path.lexists(place):
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    # Relative, so that it leads into the new root also before that is the root.
    os.symlink(os.path.relpath(target, os.path.dirname(name)), place)


def _write_accounts(ids: tuple[int, int]) -> None:
    uid, gid = ids
    with open(f"{_NEW}/etc/passwd", "w") as file:
        file.write(f"root:x:0:0:root:/:/usr/sbin/nologin\nworker:x:{uid}:{gid}:worker:/tmp:/bin/sh\n")
    with open(f"{_NEW}/etc/group", "w") as file:
        file.write(f"root:x:0:\nworker:x:{gid}:\n")
