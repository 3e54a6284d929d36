"""A device that is lost or full, a host without memory, a worker that hangs, a judge that dies: verdict or fault?

A machine breaks for everybody who uses it: here that is the problem's file, which judge, baseline and canary run, and
which is changed after its audit. What the candidate's file does is the candidate's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from extension_samples import ANSWER
from stage_places import HONEST, PROBLEM, Place, within
from test_evaluator import comparable

from benchmarks.left_behind import Watch

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


IN_A_WORKER = '"KBV_CHANNEL_FD" in __import__("os").environ'
"""Where a problem raises: not in the judge."""


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
    broken.problem.write_text(raising(PROBLEM, error, IN_A_WORKER))
    refused(broken.stage("hidden-gate", item), "canary failed as well")
    assert not broken.has_record("hidden-gate", item)


@pytest.mark.parametrize(
    ("when", "error", "words"),
    [
        (IN_A_WORKER, LOST, "the baseline failed"),
        (IN_A_WORKER, FULL, "the baseline failed"),
        # In the judge, before any code of the candidate's runs.
        ("True", LOST, "unspecified launch failure"),
        ("True", FULL, "out of memory"),
    ],
)
def test_what_breaks_before_a_candidate_is_timed_is_no_verdict(
    broken: Place, passed, when: str, error: str, words: str
) -> None:
    item = broken.item(HONEST, 0)
    broken.problem.write_text(raising(PROBLEM, error, when))
    refused(broken.stage("time-fp32", item), words)
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


# --- the host's memory ------------------------------------------------------------------------------------------------

# Touches what it takes: only then does it count. A third of this is more than the group below may have.
GREEDY = HONEST.replace(LAUNCH, f"        hoard = [torch.ones(1 << 24) for _ in range(60)]\n{LAUNCH}")
GROUP_BYTES = 1 << 30


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory cgroup of a gigabyte, of the first or the second version; its ``cgroup.procs``."""
    roots = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}
    for root, limit in roots.items():
        group = root / f"kbv-faults-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(GROUP_BYTES))
            yield group / "cgroup.procs"
            return
        except OSError:
            continue
        finally:
            assert within(20, lambda folder=group: _removed(folder))
    pytest.skip("making a cgroup with a memory limit needs root and a writable /sys/fs/cgroup")


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # somebody is still in it
        return False
    return True


def test_who_eats_the_hosts_memory_is_killed_and_nobody_else(place: Place, small_group: Path) -> None:
    """Worker before judge: the kernel ends who volunteers. What is left is enough for a canary, so it is a verdict."""
    item = place.item(GREEDY, 3)
    assert place.stage("compile", item).returncode == 0
    words = [sys.executable, "-m", "kbverified", *place.words("hidden-gate", item), *place.bench.options]
    # Without the evaluator, whose judges would be in a group of their own.
    done = subprocess.run(
        ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(small_group), *words],
        env={**place.bench.environment, "KBV_EVALUATOR": "off"}, cwd=place.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    gate = place.record("hidden-gate", item)
    assert gate["verdict"] == "crash" and "signal 9" in gate["detail"], gate["detail"]


# --- hanging and dying ------------------------------------------------------------------------------------------------

# Never comes back, and never lets go of Python's lock: no signal handler and no other thread of the worker runs again.
HANGS = (
    '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""'''
    + ANSWER.replace("return PyLong_FromLong(VALUE);", "volatile int spinning = 1; while (spinning) {} return nullptr;")
    + '''"""
extension = load_inline(name="hangs", cpp_sources=SOURCE, no_implicit_headers=True, extra_cflags=["-O3"])

class ModelNew(nn.Module):
    def forward(self, x):
        extension.answer()
        return torch.relu(x)
'''
)


def test_a_kernel_that_hangs_with_pythons_lock_is_ended_in_time(place: Place) -> None:
    item = place.item(HANGS, 4)
    assert place.stage("compile", item).returncode == 0
    assert place.record("compile", item)["builds"][0]["ok"], "it is the launch that hangs"
    start = time.monotonic()
    assert place.stage("hidden-gate", item, "--timeout-s", "3").returncode == 0
    gate = place.record("hidden-gate", item)
    assert gate["verdict"] == "timeout" and "no answer to 'forward' within 3 s" in gate["detail"]
    assert time.monotonic() - start < 30, "one answer's limit, and a canary"


WAITS = HONEST.replace(LAUNCH, f"        import time; time.sleep(600)\n{LAUNCH}")


def test_a_killed_judge_is_a_fault_and_takes_its_workers_along(place: Place, watch: Watch, passed) -> None:
    """Its client tells, its evaluator serves on, and the next judge has the same to say."""
    item = place.item(WAITS, 5)
    assert place.stage("compile", item).returncode == 0
    words = [sys.executable, "-m", "kbverified", *place.words("hidden-gate", item), *place.bench.options]
    client = subprocess.Popen(words, env=place.bench.environment, cwd=place.folder, stderr=subprocess.PIPE, text=True)
    assert within(60, lambda: len(watch.judge_pids()) == 1)
    (judge,) = watch.judge_pids()
    warm = watch.evaluator_pids()
    os.kill(judge, signal.SIGKILL)
    _, told = client.communicate(timeout=30)
    assert client.returncode == 75 and f"the judge (process {judge}) has ended without an answer" in told
    assert not place.has_record("hidden-gate", item)
    assert watch.wait(records=place.records) == []
    recovers(place, passed)
    assert watch.evaluator_pids() == warm


# --- records of earlier stages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "read", "content", "field"),
    [
        ("compile", "audit", b"", "(whole record)"),
        ("hidden-gate", "audit", b'{"stage": "audit-problem"}', "provenance"),
        ("hidden-gate", "compile", bytes(range(256)), "(whole record)"),
        ("time-fp32", "compile", b"[1, 2]", "(whole record)"),
        ("time-fp32", "gate", None, "(whole record)"),
    ],
)
def test_a_stage_names_the_record_that_is_none(
    place: Place, passed, tmp_path: Path, stage: str, read: str, content: bytes | None, field: str
) -> None:
    """Exit code 2: nothing was done, and the same call would fail again. ``content`` None: half of what there was."""
    item = place.item(HONEST, 0)
    words = place.words(stage, item)
    option = {"audit": "--audit", "compile": "--compiled", "gate": "--gate"}[read]
    at = words.index(option) + 1
    broken = tmp_path / "broken.json"
    whole = Path(words[at]).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2] if content is None else content)
    words[at], words[words.index("--out") + 1] = str(broken), str(tmp_path / "out.json")
    done = place.bench.call(*words)
    assert done.returncode == 2, done.stderr
    assert f"{broken}: field {field}" in done.stderr and "Delete the file and rerun" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out.json").exists()


# --- the cache of builds ----------------------------------------------------------------------------------------------

BUILDS = HANGS.replace("volatile int spinning = 1; while (spinning) {} return nullptr;", "return PyLong_FromLong(7);")


def _cut_short(build: Path) -> None:
    (library,) = build.rglob("*.so")
    os.truncate(library, library.stat().st_size // 2)


def _other_content(build: Path) -> None:
    """A whole library that loads, of a build that was not this one."""
    (library,) = build.rglob("*.so")
    library.write_bytes(library.read_bytes() + b"\0")


def _missing(build: Path) -> None:
    next(build.rglob("*.so")).unlink()


def _all_gone(build: Path) -> None:
    shutil.rmtree(build)


@pytest.fixture(scope="module")
def built(place: Place) -> dict[str, object]:
    return place.gate(place.item(BUILDS, 6))


@pytest.mark.parametrize("damage", [_cut_short, _other_content, _missing, _all_gone])
def test_a_damaged_build_is_built_again_and_not_used(place: Place, built, damage) -> None:
    item = place.item(BUILDS, 6)
    compiled = place.record("compile", item)
    build = Path(compiled["build_directory"])
    (library,) = build.rglob("*.so")
    whole = library.read_bytes()
    damage(build)
    assert place.stage("hidden-gate", item).returncode == 0
    assert comparable(place.record("hidden-gate", item)) == comparable(built)
    (again,) = build.rglob("*.so")
    assert again.read_bytes() == whole, "mended for the stages that follow"
    assert place.stage("compile", item).returncode == 0
    assert place.record("compile", item)["builds"][0]["cached"]
