"""A worker times itself. Three ways to make use of that, each found by the judge's own clock, and their honest twin.

Each attack is also run with the bound not enforced: then it passes, with a claim that is far from the truth.
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

# Inputs change between rounds and stay the same within one: the first launch, untimed, computes.
CACHED_BY_CONTENT = """
import torch

class ModelNew(torch.nn.Module):
    key, kept = None, None

    def forward(self, x, y):
        key = (float(x[0, 0]), float(x[-1, -1]), float(y[0, 0]))
        if key != self.key:
            self.key, self.kept = key, x @ y
        return self.kept
"""

# The message says how many launches there will be, and whether the last one's output is wanted.
ONLY_THE_LAST = """
import sys
import torch

def the_message():
    frame = sys._getframe()
    while "message" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["message"]

class ModelNew(torch.nn.Module):
    current, done, kept = None, 0, None

    def forward(self, x, y):
        message = the_message()
        if self.kept is None:
            self.kept = x @ y
        if message is not self.current:
            self.current, self.done = message, 0
        self.done += 1
        if {wanted}:
            return x @ y
        return self.kept
"""
LAST_OF_A_ROUND = "message.get('deliver') and self.done == message['hot'] + message['repetitions']"
SMART = ONLY_THE_LAST.format(wanted=f"message['do'] != 'time' or {LAST_OF_A_ROUND}")
EVERY_OTHER_OF_A_BATCH = f"message['index'] % 2 == 1 if message['do'] == 'batch' else {LAST_OF_A_ROUND}"

FIRST_FOR_EVER = """
import torch

class ModelNew(torch.nn.Module):
    kept = None

    def forward(self, x, y):
        if self.kept is None:
            self.kept = x @ y
        return self.kept
"""

ATTACKS = {"forged clock": FORGED_CLOCK, "cached by content": CACHED_BY_CONTENT, "only the last": SMART}


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


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_time_that_no_launch_took_is_disputed(timed, attack):
    record = timed(ATTACKS[attack])
    assert record.verdict == "time_disputed", (record.verdict, record.detail, record.judge_bound)
    assert record.judge_bound.t_judge_ms > 5 * record.judge_bound.claim_ms
    assert "by the judge's clock" in record.detail


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_the_bound_it_would_pass(timed, attack, monkeypatch):
    monkeypatch.setattr(bound, "TIMING_BOUND_ENFORCED_ABOVE_MS", {"cpu": math.inf})
    record = timed(ATTACKS[attack])
    assert (record.verdict, record.judge_bound.outcome) == ("pass", "not_enforced"), record.detail
    assert record.judge_bound.undetected_gain_at_most > 5  # the record says what it let through


def test_who_leaves_out_launches_of_a_batch_too_has_given_wrong_answers(timed):
    record = timed(ONLY_THE_LAST.format(wanted=EVERY_OTHER_OF_A_BATCH))
    assert record.verdict == "wrong_value", (record.verdict, record.detail)
    assert "off by" in record.detail


def test_one_answer_for_all_inputs_is_wrong_even_where_outputs_hardly_differ(timed, monkeypatch):
    """Sums of 1024 products of numbers from [0, 1): any two draws' outputs are 4 % apart."""
    assert timed(FIRST_FOR_EVER).verdict == "wrong_value"
    monkeypatch.setattr(rounds, "TIMED_OUTPUT_REPLAY_RATIO", 100.0)
    assert timed(FIRST_FOR_EVER).verdict != "wrong_value"


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

    By how much is the operating system's choice, so that here a second is added to what such a batch takes; added to
    the first as well, nothing would be left to enforce.
    """
    run_batch, of_baseline = bound.run_batch, []

    def disturbed(side, drawn, reference=None):
        found = run_batch(side, drawn, reference)
        if reference is not None:
            return found
        of_baseline.append(side.job.party.flags is None)  # None: the candidate's model has not been asked for yet
        if len(of_baseline) <= undisturbed:
            return found
        return dataclasses.replace(found, wall_ms=found.wall_ms + 1000.0)

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
