"""The Linux calls that Python does not offer, through ctypes: namespaces, mounts, privileges.

Every function raises OSError. Runs in the launcher, single-threaded, before a worker exists.
"""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_NR_MOUNT_SETATTR = 442  # the same number on every architecture
_NR_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object, what: str) -> int:
    """A raw system call. Integers are passed as long, everything else as ctypes has it."""
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *converted), what)


def prctl(option: int, *arguments: int, what: str) -> int:
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(ctypes.c_int(option), *padded), what)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    _checked(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            data.encode() if data else None,
        ),
        f"mount {source} on {target}",
    )


def unmount_detached(target: str) -> None:
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    number = _NR_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root: its number on {os.uname().machine} is not known here")
    syscall(number, ctypes.c_char_p(os.fsencode(new)), ctypes.c_char_p(os.fsencode(old)), what="pivot_root")


def set_mount_attributes(target: str, attributes: int) -> None:
    """Set MS_RDONLY, MS_NOSUID, MS_NODEV on a mount and all mounts below it (Linux 5.12; ENOSYS before)."""
    # struct mount_attr {attr_set, attr_clr, propagation, userns_fd}; these three flags have their MS_ values.
    attr = struct.pack("=QQQQ", attributes, 0, 0, 0)
    syscall(
        _NR_MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(target)),
        _AT_RECURSIVE,
        ctypes.c_char_p(attr),
        len(attr),
        what=f"mount_setattr {target}",
    )


def set_hostname(name: str) -> None:
    _checked(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def die_with_parent() -> None:
    """SIGKILL this process when its parent's thread ends. A change of uid resets it: call it afterwards."""
    prctl(_PR_SET_PDEATHSIG, 9, what="PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    prctl(_PR_SET_CHILD_SUBREAPER, 1, what="PR_SET_CHILD_SUBREAPER")


def hide_memory() -> None:
    """No ptrace, no /proc/self/mem for others of the same uid."""
    prctl(_PR_SET_DUMPABLE, 0, what="PR_SET_DUMPABLE")


def show_memory() -> None:
    """Undo what a change of uid did: /proc/self is the process's own again. An exec does the same."""
    prctl(_PR_SET_DUMPABLE, 1, what="PR_SET_DUMPABLE")


def forbid_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1, what="PR_SET_NO_NEW_PRIVS")


def drop_bounding_set() -> None:
    """Empty the capability bounding set: what is executed later cannot bring a capability back."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        prctl(_PR_CAPBSET_DROP, capability, what=f"PR_CAPBSET_DROP {capability}")


def drop_capabilities() -> None:
    """Give up every effective, permitted, inheritable and ambient capability."""
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, what="PR_CAP_AMBIENT_CLEAR_ALL")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))), "capset")


def has_capability(number: int) -> bool:
    """Whether this process has an effective capability, for example 21 (CAP_SYS_ADMIN)."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> number & 1)
    return False


def release() -> tuple[int, int]:
    """Major and minor number of the running kernel."""
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))
