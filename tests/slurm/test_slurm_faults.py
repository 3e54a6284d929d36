"""What a cluster does to a run: a cancelled job, a dead node, a controller that is away. The same results after each,
and nothing else is redone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from slurm_tree import TAILS, Running, SlurmTree, assert_nothing_is_left
from small_tree import tables_of

TAIL = TAILS[0]  # the one in C++
GENERATOR = TAIL.split("/")[0]
LAST = f"results/memory/{TAIL}.json"
AWAY_S = 25
"""How long the controller is away: longer than a query of the jobs' states tries, which fails and is repeated."""


@contextmanager
def disturbed(tree: SlurmTree, *arguments: str) -> Iterator[tuple[Running, str]]:
    """A run that makes one candidate's GPU records again, caught in the middle of its job: gate done, the rest not.

    Yields the run and SLURM's id of the job. In the end the records have to say what they said before, and nothing
    else may have been written again, in this run and in a second one that finds what is missing.
    """
    said, before = tree.results(), tree.written()
    again = tree.forget(TAIL)
    running = tree.start(*arguments)
    try:
        gate = tree.path / f"results/hidden-gate/{TAIL}.json"
        running.wait_for(gate.exists, "the gate's record")
        job = tree.running_job(LAST)
        assert job is not None and not (tree.path / LAST).exists()
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


def test_a_cancelled_job_costs_its_candidate_and_a_rerun_makes_it_again(slurm_run: SlurmTree) -> None:
    with disturbed(slurm_run, "--retries", "0") as (running, job):
        slurm_run.cluster.ask("scancel", job)
        assert running.end() != 0, "a run with a cancelled job has failed"
        assert "That is never a verdict on a candidate" in running.text()
        assert not any((slurm_run.path / path).exists() for path in (LAST, f"results/hidden-gate/{TAIL}.json"))


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


def test_a_controller_that_was_away_is_waited_for(slurm_run: SlurmTree) -> None:
    cluster = slurm_run.cluster
    with disturbed(slurm_run) as (running, job):
        cluster.end("slurmctld", signal.SIGKILL)
        time.sleep(AWAY_S)
        cluster.start_controller()
        assert running.end() == 0, running.text()
        # The job never noticed.
        fields = slurm_run.jobs()[job]
        assert fields["JobState"] == "COMPLETED" and fields["Restarts"] == "0"
        assert "Trying to restart" not in running.text()
