"""Attacks of every family, through the harness of ``tests/attacks``: caught, escaping without its defence, its twin.

Then the clock itself: what it makes of streams that nobody waits for, and what its looking at them costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from attack import Attack, attacks, families
from chain import Bench
from harness import KINDS, Range, answers_for_all, check, run, skip_what_no_process_may

from kbverified.lease import visible_gpus
from kbverified.protocol import TIMING_JOIN_GAP_MS

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")
ATTACKS = [attack for family in families() for attack in attacks(family, "cuda")]


@pytest.fixture(scope="module")
def shooting_range(tmp_path_factory: pytest.TempPathFactory):
    named = os.environ.get("KBV_GPU_TEST_OUT")
    out = Path(named) / "attacks" if named else tmp_path_factory.mktemp("attacks")
    with answers_for_all() as port:
        yield Range(Bench(out, device="cuda", timeout_s=60.0), "cuda", port)


@pytest.fixture(scope="module")
def found(shooting_range: Range, request: pytest.FixtureRequest):
    """Records of the attacks that were asked for, several at once: while one holds the device, others import torch."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [parameters["attack"] for parameters in chosen if "kind" in parameters]
    wanted = [attack for attack in ATTACKS if attack in asked]
    for problem in sorted({attack.problem for attack in wanted}):
        shooting_range.problem(problem)

    def every_kind(attack: Attack) -> list[dict[str, Any] | str]:
        records: list[dict[str, Any] | str] = []
        for kind in KINDS:
            try:
                records.append(run(shooting_range, attack, kind))
            except (AssertionError, subprocess.TimeoutExpired) as error:
                records.append(str(error))
        return records

    with ThreadPoolExecutor(6) as pool:
        every = list(pool.map(every_kind, wanted))
    return {(a.name, kind): record for a, records in zip(wanted, every) for kind, record in zip(KINDS, records)}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_is_caught_escapes_without_its_defence_and_has_an_honest_twin(found, attack, kind):
    skip_what_no_process_may(attack, kind)
    record = found[attack.name, kind]
    assert isinstance(record, dict), record
    check(attack, kind, record)


CLOCK = """
import json, statistics, torch
from kbverified.devices import open_device
from kbverified.protocol import TIMING_COVER_MS, TIMING_QUEUED_FLUSHES
torch.set_grad_enabled(False)
device = open_device("cuda")
side = torch.cuda.Stream()
a = torch.randn(4096, 4096, device="cuda")
one = torch.zeros(1, device="cuda")
found = {}

def beside():
    with torch.cuda.stream(side):
        return a @ a

def ahead():
    result = beside()
    torch.cuda.current_stream().wait_stream(side)
    return result

launches = {"short": lambda: one + 1, "long": lambda: a @ a, "beside": beside, "ahead": ahead}
for name, launch in launches.items():
    times, gaps = [], []
    for _ in range(60):
        times.append(device.time_cold_ms(launch, TIMING_QUEUED_FLUSHES["cuda"], TIMING_COVER_MS["cuda"])[0])
        gaps.append(device._events[1].elapsed_time(device._events[2]))
    found[name] = {"ms": statistics.median(times[10:]), "gap_ms": statistics.median(gaps[10:])}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def clock(shooting_range: Range):
    """Medians of a short launch, a long one, and the long one on a stream that nothing waits for (ms)."""
    environment = {**shooting_range.bench.environment, "CUDA_VISIBLE_DEVICES": visible_gpus()[0].uuid}
    done = subprocess.run([sys.executable, "-c", CLOCK], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_looking_at_all_streams_is_not_taken_for_work(clock):
    assert clock["short"]["gap_ms"] < TIMING_JOIN_GAP_MS and clock["long"]["gap_ms"] < TIMING_JOIN_GAP_MS, clock


def test_work_on_a_stream_that_nothing_waits_for_is_timed(clock):
    assert clock["beside"]["ms"] == pytest.approx(clock["long"]["ms"], rel=0.1), clock


def test_no_stream_works_before_the_clock(clock):
    """Unheld, half a millisecond of the product's 2.7 would be done when the clock starts."""
    assert clock["ahead"]["ms"] == pytest.approx(clock["long"]["ms"], rel=0.05), clock
