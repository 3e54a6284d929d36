"""Landlock (Linux 5.13): an unprivileged process confines itself to a list of paths.

Numbers and structures: Linux uapi, linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from kbverified.sandbox import linux

_NR_CREATE, _NR_ADD, _NR_RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_NET_BIND_AND_CONNECT_TCP = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3


def abi() -> int:
    """Version of the interface; 0 where the kernel has none or it is switched off."""
    try:
        return linux.syscall(_NR_CREATE, 0, 0, _VERSION, what="landlock")
    except OSError:
        return 0


def restrict(read: list[str], write: list[str], devices: list[str]) -> None:
    """Confine this process and all that it starts. Needs no_new_privs. Raises OSError.

    ``read``: folders and files to read and execute. ``write``: everything below is allowed. ``devices``: nodes to
    read, write and control. All else is denied, and with it TCP (ABI 4), signals and abstract sockets that lead
    out (ABI 6).
    """
    version = abi()
    if version == 0:
        raise OSError("landlock: the kernel does not offer it")
    rights = _RIGHTS_BY_ABI[min(version, 5)]
    attributes = struct.pack(
        "=QQQ",
        rights,
        _NET_BIND_AND_CONNECT_TCP if version >= 4 else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    # An older kernel accepts a longer structure only if what it does not know is zero.
    ruleset = linux.syscall(_NR_CREATE, ctypes.c_char_p(attributes), len(attributes), 0, what="landlock_create_ruleset")
    try:
        for path in read:
            _allow(ruleset, path, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in write:
            _allow(ruleset, path, rights & ~_IOCTL_DEV)
        for path in devices:
            _allow(ruleset, path, rights & (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
        linux.syscall(_NR_RESTRICT, ruleset, 0, what="landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, fd)
        linux.syscall(_NR_ADD, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0, what=f"landlock_add_rule {path}")
    finally:
        os.close(fd)
