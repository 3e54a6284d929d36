"""What a cluster does to a run: a cancelled job, a dead node, a controller that is away. The same results after each,
and nothing else is redone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from slurm_tree import TAILS, Running, SlurmTree, assert_nothing_is_left, processes_of
from small_tree import tables_of

TAIL = TAILS[0]  # the one in C++
GENERATOR = TAIL.split("/")[0]
GATE = f"results/hidden-gate/{TAIL}.json"
REACH_S = 10
"""How long SLURM's commands try to reach a controller before they fail (MessageTimeout)."""


@contextmanager
def disturbed(tree: SlurmTree, *arguments: str) -> Iterator[tuple[Running, str]]:
    """A run that makes one candidate's GPU records again, caught while a stage after the gate is at work in its job.

    Yields the run and SLURM's id of the job. In the end the records have to say what they said before, and nothing
    else may have been written again, in this run and in a second one that finds what is missing.
    """
    said, before = tree.results(), tree.written()
    again = tree.forget(TAIL)
    running = tree.start(*arguments)
    try:
        running.wait_for((tree.path / GATE).exists, "the gate's record")
        running.wait_for(lambda: later_stage(tree), "a stage after the gate")
        time.sleep(1)  # its judge and workers are there now
        job = tree.running_job(GATE)
        assert job is not None and later_stage(tree)
        yield running, job
        running.end()
    finally:
        running.kill()
    tree.whole_run()
    assert tree.results() == said
    after = tree.written()
    rewritten = {path for path, at in after.items() if before.get(path) != at}
    assert again <= rewritten <= again | tables_of(GENERATOR)
    assert tree.planned() == {}
    assert_nothing_is_left(tree)


def later_stage(tree: SlurmTree) -> bool:
    commands = (command for command in processes_of(tree) if "-m kbverified stage " in command)
    return any("stage hidden-gate" not in command for command in commands)


def test_a_cancelled_job_costs_its_candidate_and_a_rerun_makes_it_again(slurm_run: SlurmTree) -> None:
    with disturbed(slurm_run, "--retries", "0") as (running, job):
        slurm_run.cluster.ask("scancel", job)
        assert running.end() != 0, "a run with a cancelled job has failed"
        assert "That is never a verdict on a candidate" in running.text()
        # Snakemake deletes what the finished members of a failed group wrote.
        assert not (slurm_run.path / GATE).exists()


def test_a_job_of_a_dead_node_is_tried_again_on_another_with_more_memory(slurm_run: SlurmTree) -> None:
    cluster = slurm_run.cluster
    with disturbed(slurm_run) as (running, job):
        first = slurm_run.jobs()[job]
        cluster.cut_power(first["NodeList"])
        try:
            running.wait_for(lambda: slurm_run.jobs()[job]["JobState"] == "NODE_FAIL", "the node is missed")
            assert running.end() == 0, running.text()
        finally:
            cluster.start_node(first["NodeList"])
        (second,) = (fields for name, fields in slurm_run.jobs().items() if int(name) > int(job))
        assert second["JobState"] == "COMPLETED" and second["NodeList"] != first["NodeList"]
        assert megabytes(second) == 2 * megabytes(first)


def megabytes(fields: dict[str, str]) -> int:
    return int(fields["MinMemoryNode"].removesuffix("M"))


@pytest.mark.parametrize("away_s", [2, 2.5 * REACH_S])
def test_a_controller_that_was_away_is_waited_for(slurm_run: SlurmTree, away_s: float) -> None:
    cluster = slurm_run.cluster
    with disturbed(slurm_run) as (running, job):
        cluster.end("slurmctld", signal.SIGKILL)
        time.sleep(away_s)
        cluster.start_controller()
        assert running.end() == 0, running.text()
        # A stage at work does not notice. The next one, where it should begin meanwhile, fails, and so does its group.
        if away_s < REACH_S:
            assert slurm_run.jobs()[job]["JobState"] == "COMPLETED"
            assert "Trying to restart" not in running.text()
