"""A system call filter: what no kernel builder needs is answered with EPERM.

Written as classic BPF, for x86_64 and aarch64. Numbers: Linux uapi headers (a test compares them).
"""

from __future__ import annotations

import ctypes
import os
import struct

from kbverified.sandbox import linux

# name: (x86_64, aarch64); None where the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory and descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # the kernel itself, and interfaces with a long record of privilege escalations
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount_setattr": (442, 442),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "lookup_dcookie": (212, 18),
    # the machine's state
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
}
CLONE = (56, 220)
CLONE3 = (435, 435)
SOCKET = (41, 198)
SOCKETPAIR = (53, 199)
CONNECT = (42, 203)
SECCOMP = (317, 277)
# System V IPC objects belong to the IPC namespace: without one of its own, a worker reaches the judge's.
SYSTEM_V = {"shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186)}

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24  # offsets in struct seccomp_data (low words, little endian)
_ALLOW = 0x7FFF0000
_EPERM = 0x00050000 | 1
_ENOSYS = 0x00050000 | 38
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone(2) takes
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF
_SET_MODE_FILTER, _FLAG_SPEC_ALLOW = 1, 4


def _instruction(code: int, k: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def program(machine: str, without_ipc: bool) -> bytes:
    """The filter as struct sock_filter[]. Raises OSError for a machine that is not known.

    ``without_ipc`` also denies System V IPC, connect(), and every socket but connection-oriented Unix ones: for
    workers without network and IPC namespaces. Unix sockets as such stay: CUDA binds one when it starts.
    """
    if machine not in MACHINES:
        raise OSError(f"seccomp: system call numbers of {machine} are not known here")
    column, arch = MACHINES[machine]
    code = [
        _instruction(_LOAD, _ARCH),
        _instruction(_JUMP_EQUAL, arch, true=1),
        _instruction(_RETURN, _ENOSYS),  # 32-bit calls on a 64-bit kernel
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # x32 calls carry bit 30
        code += [_instruction(_JUMP_GREATER_EQUAL, 0x40000000, false=1), _instruction(_RETURN, _ENOSYS)]
    for numbers in NUMBERS.values():
        number = numbers[column]
        if number is not None:
            code += [_instruction(_JUMP_EQUAL, number, false=1), _instruction(_RETURN, _EPERM)]
    # clone3 hides its flags behind a pointer: libc falls back to clone, whose flags can be seen.
    code += [_instruction(_JUMP_EQUAL, CLONE3[column], false=1), _instruction(_RETURN, _ENOSYS)]
    code += [
        _instruction(_JUMP_EQUAL, CLONE[column], false=4),
        _instruction(_LOAD, _ARGUMENT_0),
        _instruction(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, false=1),
        _instruction(_RETURN, _EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    if without_ipc:
        for numbers in SYSTEM_V.values():
            code += [_instruction(_JUMP_EQUAL, numbers[column], false=1), _instruction(_RETURN, _EPERM)]
        code += [
            _instruction(_JUMP_EQUAL, CONNECT[column], false=1),
            _instruction(_RETURN, _EPERM),
            _instruction(_JUMP_EQUAL, SOCKET[column], true=1),
            _instruction(_JUMP_EQUAL, SOCKETPAIR[column], false=7),
            _instruction(_LOAD, _ARGUMENT_0),
            _instruction(_JUMP_EQUAL, _AF_UNIX, false=4),
            _instruction(_LOAD, _ARGUMENT_1),
            _instruction(_AND, _SOCK_TYPE_MASK),
            _instruction(_JUMP_EQUAL, _SOCK_STREAM, true=2),  # a datagram socket sends anywhere without connect()
            _instruction(_JUMP_EQUAL, _SOCK_SEQPACKET, true=1),
            _instruction(_RETURN, _EPERM),
        ]
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(without_ipc: bool) -> None:
    """Filter this process and all that it starts. Needs no_new_privs. Raises OSError."""
    machine = os.uname().machine
    code = program(machine, without_ipc)
    filter_program = _FilterProgram(len(code) // 8, code)
    # SPEC_ALLOW: before Linux 5.16 a filter otherwise slows the process down (speculative store bypass), and
    # this process is going to be timed.
    linux.syscall(
        SECCOMP[MACHINES[machine][0]],
        _SET_MODE_FILTER,
        _FLAG_SPEC_ALLOW,
        ctypes.byref(filter_program),
        what="seccomp",
    )
