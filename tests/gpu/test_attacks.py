"""Attacks that take a GPU, through the harness of ``tests/attacks``: caught, escaping without its defence, its twin.

Then the clock itself: what it makes of streams that nobody waits for, and what its looking at them costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from attack import attacks
from chain import ROOT, Bench
from harness import Range, check_caught, check_escapes, check_twin

from kbverified.lease import visible_gpus
from kbverified.protocol import TIMING_JOIN_GAP_MS

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")
each = pytest.mark.parametrize("attack", attacks("timing", "cuda"), ids=lambda a: a.name)


@pytest.fixture(scope="module")
def shooting_range(tmp_path_factory: pytest.TempPathFactory):
    named = os.environ.get("KBV_GPU_TEST_OUT")
    out = Path(named) / "attacks" if named else tmp_path_factory.mktemp("attacks")
    return Range(Bench(out, device="cuda", timeout_s=60.0), "cuda")


@each
def test_an_attack_is_caught(shooting_range: Range, attack):
    check_caught(shooting_range, attack)


@each
def test_it_escapes_without_its_defence(shooting_range: Range, attack):
    check_escapes(shooting_range, attack)


@each
def test_its_honest_twin_passes(shooting_range: Range, attack):
    check_twin(shooting_range, attack)


CLOCK = """
import json, statistics, torch
from kbverified.devices import open_device
torch.set_grad_enabled(False)
device = open_device("cuda")
side = torch.cuda.Stream()
a = torch.randn(4096, 4096, device="cuda")
one = torch.zeros(1, device="cuda")
found = {}

def beside():
    with torch.cuda.stream(side):
        return a @ a

for name, launch in {"short": lambda: one + 1, "long": lambda: a @ a, "beside": beside}.items():
    times, gaps = [], []
    for _ in range(60):
        device.flush_cache()
        device.synchronize()
        times.append(device.time_ms(launch)[0])
        gaps.append(device._events[1].elapsed_time(device._events[2]))
    found[name] = {"ms": statistics.median(times[10:]), "gap_ms": statistics.median(gaps[10:])}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def clock():
    """Medians of a short launch, a long one, and the long one on a stream that nothing waits for (ms)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": visible_gpus()[0].uuid}
    done = subprocess.run([sys.executable, "-c", CLOCK], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_looking_at_all_streams_is_not_taken_for_work(clock):
    assert clock["short"]["gap_ms"] < TIMING_JOIN_GAP_MS and clock["long"]["gap_ms"] < TIMING_JOIN_GAP_MS, clock


def test_work_on_a_stream_that_nothing_waits_for_is_timed(clock):
    assert clock["beside"]["ms"] == pytest.approx(clock["long"]["ms"], rel=0.1), clock
