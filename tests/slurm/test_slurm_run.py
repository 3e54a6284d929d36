"""The workflow on a real SLURM: the same verdicts as without, a candidate's GPU stages in one job with one GPU."""

from __future__ import annotations

import datetime
import itertools
import re

import pandas
from slurm_tree import GPU_STAGES, TAILS, SlurmTree, WholeRun, assert_nothing_is_left, results_of
from small_tree import Tree, tables_of


def minutes(limit: str) -> int:
    """Of SLURM's time limits, as 3:54:00 or 1-00:10:00."""
    days, _, clock = limit.rpartition("-")
    hours, minutes, _ = clock.split(":")
    return int(days or 0) * 24 * 60 + int(hours) * 60 + int(minutes)


def span(job: dict[str, str]) -> tuple[datetime.datetime, datetime.datetime]:
    return datetime.datetime.fromisoformat(job["StartTime"]), datetime.datetime.fromisoformat(job["EndTime"])


def test_every_job_of_the_cluster_went_well_and_where_it_should(whole_run: WholeRun) -> None:
    jobs, records = whole_run.jobs, whole_run.records_by_job
    assert {job["JobState"] for job in jobs.values()} == {"COMPLETED"}
    assert set(jobs) == set(records)
    # One each for the ceilings, the audit, and a candidate's compilation; one for all four GPU stages of a candidate.
    compiled = {f"results/compile/{tail}.json": job for job in jobs for tail in TAILS if _only(records[job], tail)}
    assert len(jobs) == 2 + 2 * len(TAILS) and len(compiled) == len(TAILS)
    for job in compiled.values():
        assert jobs[job]["NodeList"] == "cpu1" and jobs[job]["JOB_GRES"] == "(null)"
    # As many at a time as the node has room for.
    spans = [span(jobs[job]) for job in compiled.values()]
    assert any(max(a[0], b[0]) < min(a[1], b[1]) for a, b in itertools.combinations(spans, 2))


def _only(records: set[str], tail: str) -> bool:
    return records == {f"results/compile/{tail}.json"}


def test_the_gpu_stages_of_a_candidate_are_one_job_with_one_gpu(whole_run: WholeRun) -> None:
    by_records = {frozenset(records): job for job, records in whole_run.records_by_job.items()}
    for tail in TAILS:
        job = by_records[frozenset(f"results/{stage}/{tail}.json" for stage in GPU_STAGES)]
        asked = whole_run.jobs[job]
        assert asked["NodeList"] in ("gpu1", "gpu2")
        assert asked["JOB_GRES"] == "gpu:1"
        # One after the other: the memory of one, the minutes of all.
        log = next(log for log in whole_run.tree.logs() if log.stem == job).read_text()
        single = re.findall(r"^    output: results/(\S+?)/.*?\bmem_mb=(\d+).*?\bruntime=(\d+)", log, re.S | re.M)
        parts = {stage: (int(memory), int(runtime)) for stage, memory, runtime in single}
        assert set(parts) == set(GPU_STAGES)
        assert minutes(asked["TimeLimit"]) == sum(runtime for _, runtime in parts.values())
        assert asked["MinMemoryNode"] == f"{max(memory for memory, _ in parts.values())}M"


def test_records_say_what_those_of_a_local_run_say(slurm_run: SlurmTree, local_run: Tree) -> None:
    assert slurm_run.results() == results_of(local_run)
    assert tables_of("bundled-honest", "bundled-dishonest") <= set(slurm_run.written())
    # As the candidates' own files say.
    for kind, verdict in (("honest", "pass"), ("dishonest", "wrong_value")):
        table = pandas.read_parquet(slurm_run.path / f"results/kernels/bundled-{kind}.parquet")
        assert list(table["verdict_hidden"]) == [verdict, verdict]


def test_a_rerun_has_nothing_to_do(slurm_run: SlurmTree) -> None:
    before, jobs = slurm_run.written(), set(slurm_run.jobs())
    assert slurm_run.planned() == {}
    slurm_run.whole_run()
    assert slurm_run.written() == before
    assert set(slurm_run.jobs()) == jobs


def test_a_run_leaves_nothing_behind(slurm_run: SlurmTree) -> None:
    assert_nothing_is_left(slurm_run)
