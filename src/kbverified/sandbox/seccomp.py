"""A system call filter: what no kernel builder needs is answered with EPERM. Classic BPF, for x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import struct

from kbverified.sandbox import linux, syscalls

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_ALLOW = 0x7FFF0000
_EPERM = 0x00050000 | 1
_ENOSYS = 0x00050000 | 38
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone(2) takes
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF
_OWNER_READS_AND_WRITES, _ALL_BUT_OWNER_EXECUTES = 0o600, 0xFFFFFFFF & ~0o100
_SET_MODE_FILTER, _FLAG_SPEC_ALLOW = 1, 4


def program(machine: str, own_namespaces: bool, own_uid: bool) -> bytes:
    """The filter as struct sock_filter[]. Raises OSError for a machine that is not known.

    Without namespaces of its own a worker is also denied System V IPC, connect(), and every socket but
    connection-oriented Unix ones (Unix sockets as such stay: CUDA binds one when it starts). With neither those nor a
    uid of its own, what processes of one uid may do to each other.
    """
    if machine not in syscalls.COLUMN:
        raise OSError(f"seccomp: system call numbers of {machine} are not known here")
    column = syscalls.COLUMN[machine]
    code = _same_architecture(machine)
    code += _deny(syscalls.DENIED, column)
    # clone3 hides its flags behind a pointer: libc falls back to clone, whose flags can be seen.
    code += [_instruction(_JUMP_EQUAL, syscalls.CLONE3[column], false=1), _instruction(_RETURN, _ENOSYS)]
    code += _when(
        syscalls.CLONE[column],
        [_load_argument(0), _instruction(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, true=1)],
    )
    if not own_namespaces:
        code += _deny({**syscalls.SYSTEM_V, "connect": syscalls.CONNECT}, column)
        code += _only_connected_unix_sockets(column)
        if not own_uid:
            code += _nothing_on_the_judge(column)
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def _instruction(code: int, k: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def _load_argument(index: int) -> bytes:
    """The low word of an argument: 32 bits are all that the kernel reads of pids, flags and modes."""
    return _instruction(_LOAD, 16 + 8 * index)


def _same_architecture(machine: str) -> list[bytes]:
    code = [
        _instruction(_LOAD, _ARCH),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], true=1),
        _instruction(_RETURN, _ENOSYS),  # 32-bit calls on a 64-bit kernel
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # x32 calls carry bit 30
        code += [_instruction(_JUMP_GREATER_EQUAL, 0x40000000, false=1), _instruction(_RETURN, _ENOSYS)]
    return code


def _deny(table: dict[str, syscalls.Numbers], column: int) -> list[bytes]:
    code = []
    for numbers in table.values():
        number = numbers[column]
        if number is not None:
            code += [_instruction(_JUMP_EQUAL, number, false=1), _instruction(_RETURN, _EPERM)]
    return code


def _when(number: int | None, condition: list[bytes]) -> list[bytes]:
    """Judge one call by its arguments: ``condition`` ends with a jump over one instruction where it is to be denied."""
    if number is None:
        return []
    verdict = [_instruction(_RETURN, _ALLOW), _instruction(_RETURN, _EPERM)]
    return [_instruction(_JUMP_EQUAL, number, false=len(condition) + len(verdict)), *condition, *verdict]


def _only_connected_unix_sockets(column: int) -> list[bytes]:
    """Socket and socketpair. A datagram socket sends anywhere without connect(), also one of a pair."""
    code = []
    for number in (syscalls.SOCKET[column], syscalls.SOCKETPAIR[column]):
        code += _when(
            number,
            [
                _load_argument(0),
                _instruction(_JUMP_EQUAL, _AF_UNIX, false=5),
                _load_argument(1),
                _instruction(_AND, _SOCK_TYPE_MASK),
                _instruction(_JUMP_EQUAL, _SOCK_STREAM, true=1),
                _instruction(_JUMP_EQUAL, _SOCK_SEQPACKET, false=1),
            ],
        )
    return code


def _nothing_on_the_judge(column: int) -> list[bytes]:
    code = _deny(syscalls.ON_THE_JUDGE, column)
    for numbers, argument in syscalls.ON_THE_JUDGE_UNLESS_ZERO.values():
        code += _when(numbers[column], [_load_argument(argument), _instruction(_JUMP_EQUAL, 0, false=1)])
    for numbers, argument in syscalls.ON_THE_JUDGE_UNLESS_PRIVATE.values():
        code += _when(
            numbers[column],
            [
                _load_argument(argument),
                _instruction(_AND, _ALL_BUT_OWNER_EXECUTES),
                _instruction(_JUMP_EQUAL, _OWNER_READS_AND_WRITES, false=1),
            ],
        )
    return code


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(own_namespaces: bool, own_uid: bool) -> None:
    """Filter this process and all that it starts. Needs no_new_privs. Raises OSError."""
    machine = os.uname().machine
    code = program(machine, own_namespaces, own_uid)
    filter_program = _FilterProgram(len(code) // 8, code)
    # SPEC_ALLOW: before Linux 5.16 a filter otherwise slows the process down (speculative store bypass), and
    # this process is going to be timed.
    linux.syscall(
        syscalls.SECCOMP[syscalls.COLUMN[machine]],
        _SET_MODE_FILTER,
        _FLAG_SPEC_ALLOW,
        ctypes.byref(filter_program),
        what="seccomp",
    )
