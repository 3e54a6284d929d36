"""A worker times itself, and the judge's own clock bounds its claims: the bound itself, with a judge in this process.

Who makes use of it lies in ``tests/attacks/timing``: caught, and not caught without the bound.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from kbverified import stages
from kbverified.judge import bound, rounds, timing
from kbverified.judge.party import Settings

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return x @ y

def get_inputs():
    return [torch.rand(1024, 1024), torch.rand(1024, 1024)]

def get_init_inputs():
    return []
"""

HONEST = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return x @ y
"""

# The clock of the CPU device is a Python function of a module that is everybody's.
FORGED_CLOCK = (
    """
import time
real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 100
"""
    + HONEST
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A problem and its audit; the launches are long enough for the bound to be enforced on a CPU."""
    folder = tmp_path_factory.mktemp("times")
    folder.chmod(0o755)
    problem = folder / "problems" / "own" / "level1_1.py"
    problem.parent.mkdir(parents=True)
    problem.write_text(PROBLEM)
    stages.audit_problem(problem, settings(folder), folder / "audit.json")
    return folder


def settings(folder: Path) -> Settings:
    return Settings("cpu", "auto", "fp32", 60.0, folder / "build", threads=1, timing_budget_s=0.1)


@pytest.fixture
def timed(place, monkeypatch):
    """Time a source by itself: what the gate would stop has to be seen here too."""
    monkeypatch.setenv("KBV_LEASE_DIR", str(place / "leases"))
    # How far these times scatter is not the question, and on a busy machine a batch of one says little.
    monkeypatch.setattr(bound, "TIMING_BATCH_BUDGET_MS", 3000.0)
    monkeypatch.setattr(bound, "TIMING_BATCH_MAX", 4)
    monkeypatch.setattr(rounds, "TIMING_UNSTABLE_HALF_WIDTH", {"cpu": math.inf})

    def run(source: str):
        candidate = place / "candidate.py"
        candidate.write_text(source)
        problem, out = place / "problems" / "own" / "level1_1.py", place / "record.json"
        return stages.run_stage("time-fp32", candidate, problem, place / "audit.json", settings(place), out)

    return run


def test_the_honest_twin_agrees_with_the_judges_clock(timed):
    record = timed(HONEST)
    assert (record.verdict, record.judge_bound.outcome) == ("pass", "agreed"), record.detail
    assert record.judge_bound.k >= 2
    assert record.judge_bound.undetected_gain_at_most < 5


@pytest.mark.parametrize(
    ("source", "verdict"), [(HONEST, "pass"), (FORGED_CLOCK, "time_disputed")], ids=["honest", "forged clock"]
)
def test_the_bound_holds_where_both_sides_run_one_after_the_other(timed, monkeypatch, source, verdict):
    monkeypatch.setattr(timing, "needed_bytes", lambda _, copies_of_buffers, models: 1 << 60 if models == 3 else 0)
    record = timed(source)
    assert record.interleaved is False
    assert (record.verdict, len(record.rounds)) == (verdict, 10), record.detail


@pytest.mark.parametrize(("undisturbed", "verdict"), [(1, "time_disputed"), (0, "pass")])
def test_who_keeps_the_device_busy_during_the_baselines_batches_loosens_nothing(
    timed, monkeypatch, undisturbed, verdict
):
    """A thread of the candidate can do so in every batch but the first, which is made before it starts.

    By how much is the operating system's choice, so that here a second is added to what each of its launches takes;
    added to the first as well, nothing would be left to enforce.
    """
    run_batch, of_baseline = bound.run_batch, []

    def disturbed(side, drawn, reference=None):
        found = run_batch(side, drawn, reference)
        if reference is not None:
            return found
        of_baseline.append(side.job.party.flags is None)  # None: the candidate's model has not been asked for yet
        if len(of_baseline) <= undisturbed:
            return found
        return dataclasses.replace(found, walls_ms=tuple(wall + 1000.0 for wall in found.walls_ms))

    monkeypatch.setattr(bound, "run_batch", disturbed)
    record = timed(FORGED_CLOCK)
    assert record.verdict == verdict, (record.detail, record.judge_bound)
    assert of_baseline == [True] + [False] * (record.judge_bound.batches - 1)
    assert len(record.judge_bound.baseline_k) == record.judge_bound.batches > 1


PERMUTED_PROBLEM = PROBLEM.replace("return x @ y", "return torch.tanh(x).t().contiguous()").replace(
    "def forward(self, x, y)", "def forward(self, x)"
)
PERMUTED_PROBLEM = PERMUTED_PROBLEM.replace("torch.rand(1024, 1024), torch.rand(1024, 1024)", "torch.rand(4096, 4096)")
PERMUTED = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x).t()
"""


def test_an_output_that_is_not_contiguous_is_copied_as_it_lies(place, timed, monkeypatch):
    """It is right, and copied no more slowly than the baseline's, so that its copy is not held against its launch."""
    problem = place / "problems" / "own" / "level1_2.py"
    problem.write_text(PERMUTED_PROBLEM)
    audit = place / "audit_2.json"
    stages.audit_problem(problem, settings(place), audit)
    seen = []
    as_delivered = bound.as_delivered
    monkeypatch.setattr(
        bound, "as_delivered", lambda found, strides: seen.append(strides) or as_delivered(found, strides)
    )
    candidate = place / "permuted.py"
    candidate.write_text(PERMUTED)
    record = stages.run_stage("time-fp32", candidate, problem, audit, settings(place), place / "permuted.json")
    assert (record.verdict, record.judge_bound.outcome) == ("pass", "agreed"), (record.detail, record.judge_bound)
    assert seen and all(strides == [[1, 4096]] for strides in seen)
