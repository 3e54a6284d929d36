"""Faults in the middle of a run of Snakemake: what is redone afterwards, and that it comes out the same."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_tree import CONFIG, STAGES, Tree, make_tree, records_of
from stage_places import within
from test_evaluator import comparable

from benchmarks.left_behind import Watch

GOOD = "good/tiny/level1_1/0"
ALL_OF_GOOD = sorted(records_of(GOOD))
LIMIT_S = 240.0
"""For what takes seconds on an idle machine."""
GATE = f"results/hidden-gate/{GOOD}.json"
TABLE = "results/kernels/bad.parquet"
AFTER_COMPILE = records_of(GOOD, stages=STAGES[1:])


@pytest.fixture(scope="module")
def calm(watch: Watch, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree with all records of two generators, made while nothing went wrong. Never change it: take ``tree``."""
    made = make_tree(tmp_path_factory.mktemp("calm") / "project")
    made.write("config/config.yaml", CONFIG + "evaluator: true\ntimeouts_s: {hidden-gate: 60}\n")
    made.write("generations/bad/tiny/level1_2/1.py", "answer = 43\n")
    made.snakemake(TABLE, *ALL_OF_GOOD, **watch.environment)
    return made


BAD = ("bad/tiny/level1_1/0", "bad/tiny/level1_2/0", "bad/tiny/level1_2/1")


@pytest.fixture
def tree(calm: Tree, watch: Watch, tmp_path: Path) -> Iterator[Tree]:
    """A copy of it, and nothing left behind when a test is through with it."""
    copy = Tree(tmp_path / "project")
    shutil.copytree(calm.path, copy.path, symlinks=True)
    yield copy
    while started:  # of a test that failed
        run = started.pop()
        if run.poll() is None:
            run.terminate()
            run.communicate()
    assert watch.wait(records=copy.path / "results") == []


def contents(tree: Tree) -> dict[str, object]:
    return {path: comparable(tree.read(path)) for path in tree.written() if path.endswith(".json")}


def lose_gate(tree: Tree) -> dict[str, object]:
    """Delete the gate's record of the good candidate: four stages are to be run. All records as they were."""
    before = contents(tree)
    (tree.path / GATE).unlink()
    return before


def same(tree: Tree, before: dict[str, object]) -> None:
    assert {path: comparable(tree.read(path)) for path in before} == before


def start(tree: Tree, watch: Watch, *words: str) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        tree.command(*words), cwd=tree.path, env=tree.environment(**watch.environment), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    started.append(run)
    return run


@contextlib.contextmanager
def device_taken(watch: Watch) -> Iterator[None]:
    """Somebody else measures: whoever wants the device waits until this is over."""
    with open(watch.leases / f"cpu-{os.getuid()}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_for_a_waiting_judge(tree: Tree, watch: Watch) -> None:
    """Until the gate has been passed again, and the judge of a timing stage asks for the device."""
    assert within(LIMIT_S, lambda: (tree.path / GATE).exists() and bool(list(watch.leases.glob("queue-*"))))
    assert within(LIMIT_S, lambda: any(_has_open(pid, watch.leases) for pid in watch.judge_pids()))


def _has_open(pid: int, folder: Path) -> bool:
    try:
        return any(os.readlink(link).startswith(str(folder)) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended
        return False


started: list[subprocess.Popen[str]] = []


# --- processes that die -----------------------------------------------------------------------------------------------


def test_a_killed_evaluator_costs_the_jobs_that_ran_and_the_run_tries_them_again(tree: Tree, watch: Watch) -> None:
    before, written = lose_gate(tree), tree.written()
    with device_taken(watch):
        run = start(tree, watch, *ALL_OF_GOOD)
        wait_for_a_waiting_judge(tree, watch)
        (warm,) = watch.evaluator_pids()
        os.kill(warm, signal.SIGKILL)
        assert within(LIMIT_S, lambda: warm not in watch.evaluator_pids())
    told, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, told
    assert "infrastructure fault, nothing was recorded: the judge" in told, "the log of the failed try is shown"
    same(tree, before)
    assert {path for path, at in tree.written().items() if written.get(path) != at} == AFTER_COMPILE
    assert tree.planned(*ALL_OF_GOOD) == {}


def test_a_killed_judge_fails_its_job_and_the_next_run_goes_on_there(tree: Tree, watch: Watch) -> None:
    before, written = lose_gate(tree), tree.written()
    with device_taken(watch):
        run = start(tree, watch, *ALL_OF_GOOD, "--retries", "0")
        wait_for_a_waiting_judge(tree, watch)
        for judge in watch.judge_pids():
            os.kill(judge, signal.SIGKILL)
    told, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode != 0 and "has ended without an answer" in told
    kept = tree.written()
    assert GATE in kept, "what was done is done"
    assert AFTER_COMPILE - set(kept), "what was killed has left no record"
    assert {path: kept[path] for path in kept if path not in AFTER_COMPILE} == {
        path: at for path, at in written.items() if path not in AFTER_COMPILE
    }
    tree.snakemake(*ALL_OF_GOOD, **watch.environment)
    same(tree, before)
    assert {path: at for path, at in tree.written().items() if path in kept} == kept


# --- records that are none --------------------------------------------------------------------------------------------


def test_a_corrupt_record_is_named_by_who_reads_it_and_made_again_once_it_is_deleted(tree: Tree, watch: Watch) -> None:
    """Half of one that the next stage reads, and one that only the table reads, with a verdict that there is not."""
    targets = (TABLE, *sorted(records_of(GOOD, *BAD)))
    before = contents(tree)
    written = tree.written()
    half, odd = f"results/compile/{GOOD}.json", f"results/memory/{BAD[1]}.json"
    whole = (tree.path / half).read_bytes()
    tree.write(half, whole[: len(whole) // 2])
    tree.write(odd, json.dumps({**tree.read(odd), "verdict": "excellent"}))
    done = tree.snakemake(*targets, check=False, **watch.environment)
    assert done.returncode != 0
    for path, log in ((half, f"logs/hidden-gate/{GOOD}.log"), (odd, "logs/aggregate/bad.log")):
        told = (tree.path / log).read_text()
        assert f"{path}: field" in told and "Delete the file and rerun to make it again" in told, told
        assert told.strip() in done.stdout, "and whoever started the run sees it"
        (tree.path / path).unlink()
    tree.snakemake(*targets, **watch.environment)
    same(tree, before)
    redone = {path for path, at in tree.written().items() if written.get(path) != at}
    assert redone == {half, odd, TABLE} | AFTER_COMPILE
    assert tree.planned(*targets) == {}


# --- locks and runs ---------------------------------------------------------------------------------------------------


def test_locks_of_the_dead_hold_nobody_up(tree: Tree, watch: Watch) -> None:
    """Snakemake's own are plain files, which kill -9 leaves. All of ours are flock, which dies with its process."""
    lost = f"results/memory/{BAD[0]}.json"
    (tree.path / lost).unlink()
    locks = tree.path / ".snakemake/locks"
    locks.mkdir(exist_ok=True)
    (locks / "0.input.lock").write_text(f"results/hidden-gate/{BAD[0]}.json\n")
    (locks / "0.output.lock").write_text(f"{lost}\n")
    written = tree.written()
    tree.snakemake(lost, **watch.environment)
    assert {path for path, at in tree.written().items() if written.get(path) != at} == {lost}
    assert not list(locks.glob("*"))


def test_a_second_run_of_the_same_is_refused_and_disturbs_nothing(tree: Tree, watch: Watch) -> None:
    before = lose_gate(tree)
    with device_taken(watch):
        first = start(tree, watch, *ALL_OF_GOOD)
        wait_for_a_waiting_judge(tree, watch)
        second = tree.snakemake(*ALL_OF_GOOD, check=False, **watch.environment)
    assert second.returncode != 0 and "cannot be locked" in second.stdout, second.stdout
    told, _ = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, told
    same(tree, before)
    assert tree.planned(*ALL_OF_GOOD) == {}


def test_two_runs_of_different_generators_go_side_by_side(tree: Tree, watch: Watch) -> None:
    before, written = lose_gate(tree), tree.written()
    (tree.path / f"results/compile/{BAD[2]}.json").unlink()
    others = sorted(records_of(BAD[2]))
    with device_taken(watch):
        first = start(tree, watch, *ALL_OF_GOOD)
        wait_for_a_waiting_judge(tree, watch)
        tree.snakemake(*others, **watch.environment)
        assert first.poll() is None
    told, _ = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, told
    same(tree, before)
    changed = {path for path, at in tree.written().items() if written.get(path) != at}
    assert changed == AFTER_COMPILE | records_of(BAD[2])
    assert tree.planned(*ALL_OF_GOOD, *others) == {}
