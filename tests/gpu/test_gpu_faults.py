"""What only a GPU can hang on or run out of: afterwards nobody is there any more, and all memory is free again."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "stages"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from chain import Bench
from stage_places import HONEST, Place

from benchmarks.left_behind import IDLE_S, Watch
from kbverified.lease import visible_gpus

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")

LAUNCH = "        return torch.relu(x)"
# Days of work for the device; the host waits for it inside the driver, deaf to every signal but the last.
HANGS = HONEST.replace(LAUNCH, f"        torch.cuda._sleep(1 << 62)\n{LAUNCH}")
# Passes the gate's launches and hangs when it is timed, with the device held.
HANGS_LATER = HONEST.replace(
    LAUNCH,
    f"""        self.launches = getattr(self, "launches", 0) + 1
        if self.launches > 40:
            torch.cuda._sleep(1 << 62)
{LAUNCH}""",
)
TAKES_ALL = HONEST.replace(
    LAUNCH, f"        hoard = [torch.empty(1 << 32, device=x.device) for _ in range(100)]\n{LAUNCH}"
)
# The worker's context is lost by its own doing; no other process's is.
LOSES_CONTEXT = HONEST.replace(
    LAUNCH, f"        torch.ones(4, device=x.device)[torch.tensor([1 << 40], device=x.device)]\n{LAUNCH}"
)
TOLERATED_BYTES = 64 << 20


@pytest.fixture(scope="module")
def watch():
    folder = Path(tempfile.mkdtemp(prefix="kbv-faults-", dir="/tmp"))
    made = Watch(folder)
    try:
        yield made
        assert made.wait(IDLE_S + 20.0, evaluators=False) == []
    finally:
        made.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def place(watch, tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("gpu-faults"), timeout_s=20.0)
    bench.environment |= {**watch.environment, "KBV_EVALUATOR": "on", "CUDA_VISIBLE_DEVICES": visible_gpus()[0].uuid}
    made = Place(bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made


def used_bytes() -> int:
    """Of the first GPU, whoever has it: NVML's own figure, for which nobody needs a context."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(visible_gpus()[0].uuid)
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


@pytest.fixture(autouse=True)
def nothing_stays(place, watch):
    before = used_bytes()
    yield
    assert watch.wait(records=place.records) == []
    deadline = time.monotonic() + 20
    while used_bytes() > before + TOLERATED_BYTES and time.monotonic() < deadline:
        time.sleep(0.2)
    assert used_bytes() <= before + TOLERATED_BYTES, "device memory is held by nobody that could be found"
    gate = place.gate(place.item(HONEST, 0))
    assert gate["verdict"] == "pass", "and the device serves the next one"


def test_a_kernel_that_hangs_is_ended_in_time(place) -> None:
    start = time.monotonic()
    gate = place.gate(place.item(HANGS, 1), "--timeout-s", "5")
    assert gate["verdict"] == "timeout" and "within 5 s" in gate["detail"]
    assert time.monotonic() - start < 90


def test_a_kernel_that_hangs_while_it_is_timed_gives_the_device_back(place) -> None:
    item = place.item(HANGS_LATER, 2)
    assert place.gate(item)["verdict"] == "pass"
    assert place.stage("time-fp32", item, "--timeout-s", "5").returncode == 0
    record = place.record("time-fp32", item)
    assert record["verdict"] == "timeout", record["detail"]
    assert place.stage("time-fp32", place.item(HONEST, 0)).returncode == 0


def test_who_takes_all_memory_has_a_verdict(place) -> None:
    assert place.gate(place.item(TAKES_ALL, 3))["verdict"] == "out_of_memory"


def test_a_context_that_a_candidate_lost_is_its_own(place) -> None:
    gate = place.gate(place.item(LOSES_CONTEXT, 4))
    assert gate["verdict"] in ("runtime_error", "crash"), gate["detail"]
