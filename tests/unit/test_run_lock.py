"""Stale lock files go only where no other run is alive."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified import run_lock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/leaderboard.json\n")
    return tmp_path / ".snakemake"


HOLD = "import sys, pathlib; from kbverified import run_lock; run_lock.hold(pathlib.Path(sys.argv[1])); "


def hold_in_a_process(folder: Path, then: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD + then, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_files_of_a_dead_run_are_cleared(folder: Path) -> None:
    assert run_lock.hold(folder)
    assert list((folder / "locks").iterdir()) == []
    assert not run_lock.hold(folder), "there is nothing left to clear"


def test_files_of_a_living_run_stay(folder: Path) -> None:
    process = hold_in_a_process(folder, "print('held', flush=True); input()")
    (folder / "locks" / "0.output.lock").write_text("results/leaderboard.json\n")
    try:
        assert not run_lock.hold(folder)
        assert len(list((folder / "locks").iterdir())) == 1
    finally:
        process.communicate("\n")


def test_a_run_that_starts_while_another_clears_holds_its_lock_all_the_same(folder: Path) -> None:
    """Without it a third run would take it for dead, and clear its files."""
    clears = (
        "import fcntl, sys, time; file = open(sys.argv[1] + '/kbverified.lock', 'w'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(0.5)"
    )
    process = subprocess.Popen([sys.executable, "-c", clears, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    assert not run_lock.hold(folder)
    assert process.wait() == 0
    with open(folder / "kbverified.lock") as another, pytest.raises(BlockingIOError):
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_child_that_outlives_its_run_holds_nothing(folder: Path) -> None:
    child = (
        "import subprocess, os; c = subprocess.Popen(['sleep', '60']); print('held', flush=True); print(c.pid); input()"
    )
    process = hold_in_a_process(folder, child)
    assert process.stdout is not None
    orphan = int(process.stdout.readline())
    process.kill()
    process.wait()
    (folder / "locks" / "0.output.lock").write_text("results/leaderboard.json\n")
    try:
        assert run_lock.hold(folder)
    finally:
        os.kill(orphan, 9)


def test_where_no_lock_can_be_taken_nothing_is_cleared_and_nothing_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not run_lock.hold(tmp_path / "file" / ".snakemake")
