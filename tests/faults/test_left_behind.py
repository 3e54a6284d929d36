"""The one who looks: does he see what is left?"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.left_behind import Watch
from kbverified.deadline import descendants

# A grandchild in a session of its own whose parent has ended: nobody's child, in nobody's group.
ORPHAN = "from subprocess import *; print(Popen(['sleep', '60'], stdout=DEVNULL, start_new_session=True).pid)"


@pytest.fixture
def quiet(watch: Watch) -> Watch:
    assert watch.left() == []
    return watch


def test_an_orphan_is_seen_until_it_has_ended(quiet: Watch) -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, check=True)
    pid = int(done.stdout)
    try:
        assert quiet.left() == [f"process {pid}: sleep 60 "]
        assert quiet.wait(0.2) == quiet.left()
    finally:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while Path(f"/proc/{pid}").exists():  # it is reaped as well, by who looks next
        assert quiet.wait(5.0) == [] and time.monotonic() < deadline


def test_files_and_locks_are_seen(quiet: Watch, tmp_path: Path) -> None:
    shared = Path(f"/dev/shm/kbv-test-{os.getpid()}")
    lock = quiet.leases / "cpu-0.lock"
    half = tmp_path / "results" / ".0.json.x.tmp"
    half.parent.mkdir()
    (quiet.temporary / "left").touch()
    shared.touch()
    half.touch()
    try:
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            kinds = [line.rpartition(" ")[0] for line in quiet.left(records=tmp_path)]
        assert kinds == ["shared memory", "temporary file", "held lock", "half a record"]
    finally:
        shared.unlink()
        (quiet.temporary / "left").unlink()
    half.unlink()
    assert quiet.left(records=tmp_path) == []


def test_what_a_stranger_has_open_is_the_strangers(quiet: Watch) -> None:
    """Another test's browser, say: a living process that this one did not start."""
    shared = Path(f"/dev/shm/kbv-test-{os.getpid()}")
    shared.touch()
    with shared.open() as file:
        holder = subprocess.Popen(["sleep", "60"], stdin=file)
    try:
        assert quiet.left()[-1:] == [f"shared memory {shared.name}"], "held by one of ours"
        quiet._processes |= {holder.pid: descendants(os.getpid())[holder.pid]}  # as if it had been there before
        assert quiet.left() == []
    finally:
        holder.kill()
        holder.wait()
        shared.unlink()
