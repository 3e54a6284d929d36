"""The sandbox's parts by themselves: identities, the system call filter, the view, the documentation."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified.sandbox import SpawnRequest, identity, seccomp, syscalls, view
from kbverified.sandbox.operations import COLUMNS, OPERATIONS
from kbverified.sandbox.start import environment

ROOT = Path(__file__).parents[3]


def test_identities_differ_by_pid_and_stay_among_the_unused() -> None:
    everything = [range(0, 2**32 - 1)]
    seen = {identity.choose(pid, everything) for pid in (1, 2, 4_194_303)}
    ids = {i for who in seen for i in (who.worker, who.killer)}
    assert len(ids) == 6
    assert all(0x70000000 <= i < 2**31 for i in ids)


def test_identities_in_a_container_that_maps_few_ids() -> None:
    ranges = identity.mapped_ranges("         0     100000      65536\n")
    assert ranges == [range(0, 65536)]
    seen = [identity.choose(pid, ranges) for pid in range(4096)]
    ids = [i for who in seen for i in (who.worker, who.killer)]
    assert len(set(ids)) == len(ids) and min(ids) > 10_000 and max(ids) < 65_534


def test_no_identity_where_only_root_is_mapped() -> None:
    with pytest.raises(OSError, match="maps only 1 uids"):
        identity.choose(1, [range(0, 1)])


def test_an_identity_in_use_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(identity, "uids_in_use", lambda: {identity.choose(os.getpid(), [range(2**32)]).worker})
    if not any(0x70000000 in r for r in identity.mapped_ranges(Path("/proc/self/uid_map").read_text())):
        pytest.skip("this container maps too few uids")
    with pytest.raises(OSError, match="in use already"):
        identity.own()


HEADERS = {
    "x86_64": [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}


@pytest.mark.parametrize("machine", syscalls.COLUMN)
def test_system_call_numbers_are_the_kernels(machine) -> None:
    header = next((path for path in HEADERS[machine] if path.exists()), None)
    if header is None:
        pytest.skip(f"no kernel headers for {machine} on this machine")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    ours = {**syscalls.DENIED, **syscalls.SYSTEM_V, **syscalls.ON_THE_JUDGE}
    for table in (syscalls.ON_THE_JUDGE_UNLESS_ZERO, syscalls.ON_THE_JUDGE_UNLESS_PRIVATE):
        ours |= {name: numbers for name, (numbers, _) in table.items()}
    for name in ("CLONE", "CLONE3", "SOCKET", "SOCKETPAIR", "CONNECT", "SECCOMP"):
        ours[name.lower()] = getattr(syscalls, name)
    for name, numbers in ours.items():
        if name in found:  # older headers know fewer calls
            assert numbers[syscalls.COLUMN[machine]] == int(found[name]), name


EPERM, ENOSYS, ALLOW = 0x00050001, 0x00050026, 0x7FFF0000


def simulate(code: bytes, machine: str, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the filter returns for one system call: classic BPF, as far as the filter uses it."""
    data = {0: number, 4: {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]}
    data.update({16 + 8 * i: value for i, value in enumerate(arguments)})
    accumulator, at = 0, 0
    while True:
        operation, true, false, k = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            accumulator = data.get(k, 0)
        elif operation == 0x54:
            accumulator &= k
        elif operation == 0x06:
            return k
        else:
            test = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
            at += true if test else false


@pytest.mark.parametrize("machine", syscalls.COLUMN)
@pytest.mark.parametrize("shared", ["nothing", "namespaces", "namespaces and uid"])
def test_the_filter_denies_its_list_and_allows_the_rest(machine, shared) -> None:
    column = syscalls.COLUMN[machine]
    code = seccomp.program(machine, own_namespaces=shared == "nothing", own_uid="uid" not in shared)
    tables = [syscalls.DENIED]
    if shared != "nothing":
        tables += [syscalls.SYSTEM_V, {"connect": syscalls.CONNECT}]
    if "uid" in shared:
        tables += [syscalls.ON_THE_JUDGE]
    denied = {numbers[column] for table in tables for numbers in table.values()}
    by_arguments = {syscalls.CLONE3, syscalls.CLONE, syscalls.SOCKET, syscalls.SOCKETPAIR}
    if "uid" in shared:
        by_arguments |= {n for n, _ in syscalls.ON_THE_JUDGE_UNLESS_ZERO.values()}
        by_arguments |= {n for n, _ in syscalls.ON_THE_JUDGE_UNLESS_PRIVATE.values()}
    for number in set(range(500)) - {numbers[column] for numbers in by_arguments}:
        assert simulate(code, machine, number) == (EPERM if number in denied else ALLOW), number


@pytest.mark.parametrize("machine", syscalls.COLUMN)
def test_the_filter_looks_at_arguments(machine) -> None:
    column = syscalls.COLUMN[machine]
    apart, close = seccomp.program(machine, True, True), seccomp.program(machine, False, False)
    for code in (apart, close):
        assert simulate(code, machine, syscalls.CLONE3[column]) == ENOSYS
        thread, new_user = 0x003D0F00, 0x10000000 | 17
        assert simulate(code, machine, syscalls.CLONE[column], (thread,)) == ALLOW
        assert simulate(code, machine, syscalls.CLONE[column], (new_user,)) == EPERM
    for call in (syscalls.SOCKET[column], syscalls.SOCKETPAIR[column]):
        unix, inet, netlink, stream, datagram, raw, cloexec = 1, 2, 16, 1, 2, 3, 0o2000000
        assert simulate(close, machine, call, (unix, stream | cloexec)) == ALLOW
        assert simulate(close, machine, call, (unix, 5)) == ALLOW  # SOCK_SEQPACKET
        for family, kind in ((inet, stream), (inet, datagram), (netlink, raw), (unix, datagram), (unix, raw)):
            assert simulate(close, machine, call, (family, kind)) == EPERM
            assert simulate(apart, machine, call, (family, kind)) == ALLOW
    for numbers, index in syscalls.ON_THE_JUDGE_UNLESS_ZERO.values():
        for value in (0, 4321):
            arguments = (7,) * index + (value,)
            assert simulate(close, machine, numbers[column], arguments) == (EPERM if value else ALLOW)
    for numbers, index in syscalls.ON_THE_JUDGE_UNLESS_PRIVATE.values():
        for mode in (0o600, 0o700, 0o644, 0o755, 0, 0o400, 0o4700, 0o777):
            if numbers[column] is not None:
                expected = ALLOW if mode in (0o600, 0o700) else EPERM
                assert simulate(close, machine, numbers[column], (7,) * index + (mode,)) == expected, oct(mode)


def test_calls_of_another_architecture_are_refused() -> None:
    code = seccomp.program("x86_64", True, True)
    assert simulate(code, "aarch64", 0) == ENOSYS
    assert simulate(code, "x86_64", 0x40000000) == ENOSYS  # x32


def test_an_unknown_machine_is_named() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program("riscv64", True, True)


def test_the_working_directory_is_not_in_the_view(tmp_path, monkeypatch) -> None:
    """``python -m`` puts it on sys.path, and the project's results are in it."""
    project = tmp_path / "project"
    (project / "site").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", ["", str(project), str(tmp_path), str(project / "site"), *sys.path])
    paths = view.interpreter_paths()
    assert str(project / "site") in paths
    assert not {"", str(project), str(tmp_path)} & set(paths)


def test_the_view_has_what_python_and_this_package_need() -> None:
    seen = view.of(SpawnRequest([sys.executable], "none"))
    wanted = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), str(ROOT / "src/kbverified"))
    for path in wanted:
        real = Path(os.path.realpath(path))
        assert any(str(p) in seen.read for p in (real, *real.parents)), path


def test_other_names_of_a_path_lead_to_it(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    seen = view.of(SpawnRequest([sys.executable], "none", writable=(tmp_path / "name",)))
    assert seen.write == [str(tmp_path / "real")]
    assert (str(tmp_path / "name"), str(tmp_path / "real")) in seen.links


def test_the_environment_cannot_redirect_the_channel() -> None:
    made = environment(SpawnRequest(["/bin/true"], "none", env={"KBV_CHANNEL_FD": "9", "PATH": "/opt/bin"}), "/tmp")
    assert made["KBV_CHANNEL_FD"] == "3" and made["PATH"] == "/opt/bin"


def test_the_room_is_free_of_torch_and_quick_to_enter() -> None:
    code = "import kbverified.sandbox.start, sys; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_the_documentation_has_the_table() -> None:
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|", _document(), re.MULTILINE)
    documented = {row[0]: (row[1].strip(), *row[2:]) for row in rows if row[0] in {o.name for o in OPERATIONS}}
    assert documented == {o.name: (o.description, *o.outcomes) for o in OPERATIONS}
    assert all(f"`{mechanism}`" in _document() for mechanism in COLUMNS)


def _document() -> str:
    return (ROOT / "docs/sandbox.md").read_text()
