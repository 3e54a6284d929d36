"""The gate's trials of any laws: what is recorded of each, what ends them, and whose time the oracle takes."""

from __future__ import annotations

import time
import types

import pytest
import torch

from kbverified.judge import gate, trial
from kbverified.judge.party import CandidateFailure
from kbverified.judge.trial import Law, NotApplicable
from kbverified.records.trials import OracleErrors

ORACLE_S = 0.05


def slow_oracle(*_) -> OracleErrors:
    time.sleep(ORACLE_S)
    return OracleErrors(kind="none", why_not_fp64="a test")


@pytest.fixture
def stage(monkeypatch):
    """(job, party, errors): launches answer with what the law draws, the reference expects ones."""
    parts: list[str] = []
    device = types.SimpleNamespace(release_cached=lambda: parts.append("released"))
    job = types.SimpleNamespace(problem="p.py", lap=parts.append, device=device, parts=parts)
    party = types.SimpleNamespace(deadline=1000.0, worker=types.SimpleNamespace(poll=lambda: None))
    reference = types.SimpleNamespace(forward=lambda inputs: torch.ones(3))
    monkeypatch.setattr(trial, "_launch", lambda job, party, law: ([[law.draw(0)]], None))
    return job, party, types.SimpleNamespace(reference=reference, of_trial=slow_oracle)


def raising(error: Exception):
    def draw(seed: int):
        raise error

    return draw


def test_the_oracle_takes_neither_the_candidates_time_nor_its_memory(stage):
    job, party, errors = stage
    result = trial.one_trial(job, party, errors, Law("mine", lambda seed: torch.ones(3)))
    assert (result.distribution, result.critical_tolerance, result.oracle.kind) == ("mine", 0.0, "none")
    assert party.deadline >= 1000.0 + ORACLE_S
    assert job.parts == ["comparing", "released", "oracle"]


def test_what_failed_or_was_not_asked_has_no_oracle(stage):
    job, party, errors = stage
    laws = [
        Law("bad", lambda seed: torch.full((3,), float("nan"))),
        Law("unfit", raising(NotApplicable("no parameters correspond"))),
        Law("raises", raising(CandidateFailure("runtime_error", "forward raised"))),
        Law("good", lambda seed: torch.ones(3)),
    ]
    trials: list = []
    first = gate.run_laws(job, party, errors, laws, trials)
    assert first is not None and first.verdict == "nonfinite"
    assert [t.distribution for t in trials] == ["bad", "unfit", "raises", "good"]
    assert [t.oracle is not None for t in trials] == [False, False, False, True]
    assert (trials[1].applicable, trials[1].failure, trials[1].detail) == (False, None, "no parameters correspond")
    assert trials[2].failure == "runtime_error"


@pytest.mark.parametrize("verdict", ["timeout", "protocol_violation"])
def test_a_failure_that_ends_the_worker_ends_the_trials(stage, verdict):
    job, party, errors = stage
    trials: list = []
    laws = [Law("ends", raising(CandidateFailure(verdict, "gone"))), Law("never", lambda seed: torch.ones(3))]
    assert gate.run_laws(job, party, errors, laws, trials).verdict == verdict
    assert [t.distribution for t in trials] == ["ends"]
