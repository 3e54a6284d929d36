"""Every row of the table of denied operations, tried by a real worker at each level that this machine reaches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from kbverified.protocol import WORKER_OUTPUT_KEPT_BYTES, WORKER_OUTPUT_LIMIT_BYTES
from kbverified.sandbox.operations import OPERATIONS

TRIED_FROM_OUTSIDE = ("flood", "outlive_kill", "outlive_exit", "outlive_judge")
_rows: dict[str, dict | Exception] = {}


@pytest.fixture
def rows(judge) -> dict:
    """What one worker could and could not do; it runs once for each way."""
    way = str(judge.way)
    if way not in _rows:
        try:
            _rows[way] = judge.run("rows")
        except AssertionError as error:
            _rows[way] = error
    found = _rows[way]
    if isinstance(found, Exception):
        raise found
    return found


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.name not in TRIED_FROM_OUTSIDE], ids=lambda o: o.name)
def test_operation(judge, rows, operation) -> None:
    expected = operation.outcome(judge.way.mechanism)
    observed = rows[operation.name]
    assert expected in ("depends", observed["outcome"]), observed["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a set-user-ID program of root's")
def test_the_setuid_program_works_outside(stage) -> None:
    """The control of the row become_root: without the sandbox the program does change the uid."""
    outside = subprocess.check_output([stage / "id", "-u"], user=65534, group=65534, extra_groups=[], text=True)
    assert int(outside) == 0


def test_flood_is_cut_off(judge) -> None:
    answer = judge.run("flood")
    assert answer["flooded"] and answer["signal"] == signal.SIGKILL
    # The pipe and the read in flight may come on top of the limit, no more.
    assert WORKER_OUTPUT_LIMIT_BYTES < answer["bytes"] < WORKER_OUTPUT_LIMIT_BYTES + (1 << 20)
    assert answer["tail"] == WORKER_OUTPUT_KEPT_BYTES


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_daemon_dies_with_its_worker(judge, how: str) -> None:
    assert judge.run("end", how=how)["outcome"] == "denied"


def test_family_dies_with_the_judge(judge, stage) -> None:
    folder = judge.base / f"hold-{judge.way}"
    folder.mkdir()
    folder.chmod(0o777)
    heartbeat = folder / "beat"
    process = judge.start("hold", heartbeat=str(heartbeat))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["worker"]
    before = heartbeat.stat().st_size
    time.sleep(0.3)
    assert heartbeat.stat().st_size > before, "the daemon should run while its judge lives"
    process.kill()
    process.communicate()
    time.sleep(1.0)
    after = heartbeat.stat().st_size
    time.sleep(0.3)
    assert heartbeat.stat().st_size == after


def test_fork_bomb_is_bounded_and_dies(judge) -> None:
    answer = judge.run("bomb")
    assert answer["signal"] == signal.SIGKILL
    assert answer["kill_s"] < 15


def test_environment_is_made_from_nothing(judge) -> None:
    environment = judge.run("facts")["environment"]
    assert set(environment) - {"LC_CTYPE"} == {
        "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", "PATH", "KBV_CHANNEL_FD", "PROBE",
    }  # fmt: skip


def test_cores_are_what_was_asked(judge) -> None:
    core = min(os.sched_getaffinity(0))
    assert judge.run("facts", cores=[core])["cores"] == [core]


def test_only_the_view_is_there(judge) -> None:
    seen = judge.run("facts")
    if judge.way.mechanism in ("root-namespaces", "user-namespaces"):
        assert "home" not in seen["root"]
        assert 1 <= len(seen["pids"]) <= 2
    elif judge.way.mechanism == "landlock":
        assert seen["root"] is None and seen["pids"] == []


@pytest.fixture
def forked_judge(judge):
    if not judge.way.forked:
        pytest.skip("only forked workers are compared")
    return judge


def test_a_forked_worker_is_what_an_executed_one_is(forked_judge) -> None:
    """Privileges, limits, signals, descriptors, environment, interpreter: whatever a process can see of itself."""
    found = {forked: forked_judge.run("facts", forked=forked, import_path=True) for forked in (True, False)}
    for facts in found.values():
        for own in ("uid", "frames", "pids"):  # chosen for each worker; and see below
            del facts[own]
        # A scratch folder has a random name, where there is one; Python itself sets LC_CTYPE in the C locale.
        home = facts["environment"]["HOME"]
        assert facts["working_directory"] == home == facts["environment"]["TMPDIR"]
        facts["environment"].pop("LC_CTYPE", None)
        facts |= {"environment": {**facts["environment"], "HOME": "", "TMPDIR": ""}, "working_directory": ""}
        if forked_judge.way.mechanism in ("landlock", "bare"):  # there it counts whatever else this user runs
            del facts["limits"]["RLIMIT_NPROC"]
    assert found[True] == found[False]


def test_nothing_of_the_launcher_is_on_the_stack(forked_judge) -> None:
    """The warm process's loop, the launcher and its plan have been left when the program starts."""
    frames = forked_judge.run("facts")["frames"]
    ours = [frame for frame in frames if frame[0] != "<module>" and not frame[0].startswith("_run")]
    assert [name for name, _ in ours] == ["facts", "run_path", "run_program", "run_launcher", "main"]
    held = dict(map(tuple, ((name, tuple(local)) for name, local in ours)))
    assert held["run_program"] == ("argv", "env", "runpy", "words")
    assert held["run_launcher"] == ("ForkedWorker", "argv", "env", "launcher")
    assert held["main"] == ("line", "role")
