"""A device that is lost or full, a host without memory, a worker that hangs, a judge that dies: verdict or fault?

A machine breaks for everybody who uses it: here that is the problem's file, which judge, baseline and canary run, and
which is changed after its audit. What the candidate's file does is the candidate's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from extension_samples import ANSWER
from left_behind import Watch
from stage_places import HONEST, PROBLEM, Place, within
from test_evaluator import comparable

# As torch 2.13 says it, down to the advice; ECC errors and GPUs that fall off the bus read alike.
LOST = (
    "torch.AcceleratorError('CUDA error: unspecified launch failure\\n"
    "Search for `cudaErrorLaunchFailure\\' in https://docs.nvidia.com/cuda/.\\n"
    "CUDA kernel errors might be asynchronously reported at some other API call.\\n')"
)
FULL = "torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')"
LAUNCH = "        return torch.relu(x)"


def raising(text: str, error: str, when: str = "True") -> str:
    """A module's source whose forward raises under a condition on its input."""
    assert LAUNCH in text
    return text.replace(LAUNCH, f"        if {when}:\n            raise {error}\n{LAUNCH}")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """To be tried again, with a message. A worker's own traceback may be in it."""
    assert done.returncode == 75, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "infrastructure fault, nothing was recorded" in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture(autouse=True)
def nothing_stays(place: Place, watch: Watch) -> Iterator[None]:
    yield
    assert watch.wait(records=place.records) == []


@pytest.fixture
def broken(place: Place) -> Iterator[Place]:
    """A place whose problem may be rewritten: it is as it was afterwards."""
    before = place.problem.read_text()
    yield place
    place.problem.write_text(before)


@pytest.fixture(scope="module")
def passed(place: Place) -> dict[str, object]:
    """An honest candidate's records as far as the gate, before anything broke."""
    return place.gate(place.item(HONEST, 0))


def recovers(place: Place, passed: dict[str, object]) -> None:
    """The machine is well again: the same candidate has the same record."""
    place.problem.write_text(PROBLEM)
    item = place.item(HONEST, 0)
    gate = place.records / "hidden-gate" / "made-0.json"
    gate.unlink(missing_ok=True)
    assert place.stage("hidden-gate", item).returncode == 0
    assert comparable(place.record("hidden-gate", item)) == comparable(passed)


# --- the device -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "error", "words"),
    [
        ("True", LOST, "unspecified launch failure"),
        # Only where the oracle asks: what it lacks is recorded as missing, but for a device.
        ("x.dtype == torch.float64", LOST, "unspecified launch failure"),
        ("True", FULL, "out_of_memory"),
    ],
)
def test_what_breaks_under_the_judge_is_no_verdict(broken: Place, passed, when: str, error: str, words: str) -> None:
    item = broken.item(HONEST, 0)
    (broken.records / "hidden-gate" / "made-0.json").unlink()
    broken.problem.write_text(raising(PROBLEM, error, when))
    refused(broken.stage("hidden-gate", item), words)
    assert not broken.has_record("hidden-gate", item)
    recovers(broken, passed)


@pytest.mark.parametrize(("number", "error", "verdict"), [(1, LOST, "runtime_error"), (2, FULL, "out_of_memory")])
def test_a_canary_decides_what_a_candidate_says_of_the_device(
    broken: Place, passed, number: int, error: str, verdict: str
) -> None:
    item = broken.item(raising(HONEST, error), number)
    assert broken.gate(item)["verdict"] == verdict, "the reference finds a device that works"
    (broken.records / "hidden-gate" / f"made-{number}.json").unlink()
    broken.problem.write_text(raising(PROBLEM, error))
    refused(broken.stage("hidden-gate", item), "canary failed as well")
    assert not broken.has_record("hidden-gate", item)


@pytest.mark.parametrize("error", [LOST, FULL])
def test_what_breaks_under_the_baseline_is_no_verdict(broken: Place, passed, error: str) -> None:
    item = broken.item(HONEST, 0)
    broken.problem.write_text(raising(PROBLEM, error))
    refused(broken.stage("time-fp32", item), "the baseline failed")
    assert not broken.has_record("time-fp32", item)


@pytest.mark.parametrize("when", ["True", "bool((x < 0).any())"])
def test_an_audit_on_a_lost_device_says_nothing_of_the_problem(broken: Place, tmp_path: Path, when: str) -> None:
    """Under all laws, and under those with negative numbers alone."""
    broken.problem.write_text(raising(PROBLEM, LOST, when))
    words = ("audit-problem", "--problem", str(broken.problem), "--out", str(tmp_path / "audit.json"))
    done = broken.bench.call(*words)
    refused(done, "unspecified launch failure", str(broken.problem))
    assert list(tmp_path.iterdir()) == []
    broken.problem.write_text(raising(PROBLEM, "RuntimeError('the problem itself')", when))
    assert broken.bench.call(*words).returncode == 0, "any other error is the problem's own"
    assert "the problem itself" in (tmp_path / "audit.json").read_text()
