"""How many rounds there are, what is dropped, when there is no time, and what follows from the judge's batches."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from kbverified import devices, layout, lease
from kbverified.devices import nvml
from kbverified.devices.nvml import Nvml
from kbverified.judge import rounds
from kbverified.judge.bound import Batch, Bound, as_delivered, batch_size
from kbverified.judge.party import FAILURES, CandidateFailure, _known_verdict
from kbverified.judge.rounds import Trace, host_bound_share, planned_rounds, round_of, why_unstable
from kbverified.judge.timing import disputed
from kbverified.protocol import TIMING_BATCH_MAX, TIMING_ROUNDS_MAX, TIMING_TOTAL_BUDGET_S
from kbverified.records.timing import DeviceReading, JudgeBound, Round


def reading(reasons):
    return DeviceReading(sm_clock_mhz=1980, temperature_c=50, power_w=600.0, throttle_reasons=reasons)


def made(ratios, dropped=()):
    return [
        Round(first="baseline", baseline_ms=(ratio,), candidate_ms=(1.0,), dropped=index in dropped)
        for index, ratio in enumerate(ratios)
    ]


@pytest.mark.parametrize(
    ("excess", "round_s", "budget_s", "expected"),
    [
        (0.5, 0.1, 100.0, 10),  # the pilot is enough
        (1.0, 0.1, 100.0, 10),
        (2.0, 0.1, 100.0, 40),  # half the width takes four times the rounds
        (2.0, 0.1, 3.0, 30),  # as far as the budget goes
        (2.0, 1.0, 3.0, 10),  # but never fewer than the pilot
        (1e9, 1e-4, 100.0, TIMING_ROUNDS_MAX),
        (None, 0.1, 3.0, 30),
    ],
)
def test_the_pilots_spread_and_the_budget_decide_the_number(excess, round_s, budget_s, expected):
    assert planned_rounds(excess, 10, round_s, budget_s) == expected


def test_only_kernels_that_would_take_too_long_get_fewer_than_ten_rounds():
    ten_ms = 1e2 * TIMING_TOTAL_BUDGET_S
    assert rounds.least_rounds(ten_ms * 0.99) == 10
    assert rounds.least_rounds(ten_ms * 1.01) == 6


@pytest.mark.parametrize(
    ("waits", "t_judge_ms", "verdict"),
    [
        (1.0, 73.0, "unstable"),
        (1.0, 126.0, "time_disputed"),  # more than a busy host explains
        (0.5, 73.0, "time_disputed"),
        (0.0, 73.0, "time_disputed"),
    ],
)
def test_a_claim_that_is_off_is_no_accusation_where_the_time_is_the_hosts(waits, t_judge_ms, verdict):
    record = JudgeBound(outcome="disputed", k=1, batches=5, claim_ms=62.6, t_judge_ms=t_judge_ms)
    found = disputed(record, waits)
    assert found["verdict"] == verdict and found["detail"].startswith("claims 62.6 ms for a launch; by the judge's")
    assert ("waits for the host in 100 %" in found["detail"]) is (verdict == "unstable")


@pytest.mark.parametrize(
    ("baseline", "candidate", "dropped"),
    [
        (0x0, 0x0, False),
        (0x1, 0x4, False),  # idle; the software power cap
        (0x8, 0x0, True),  # hardware slowdown
        (0x0, 0x20, True),  # software thermal
        (0x4, 0x44, True),  # hardware thermal beside a power cap
        (0x80, None, True),  # power brake
        (None, None, False),
    ],
)
def test_heat_and_hardware_drop_a_round_and_the_power_cap_does_not(baseline, candidate, dropped):
    found = round_of("baseline", ([1.0], reading(baseline)), ([2.0], reading(candidate)))
    assert found.dropped is dropped
    assert (found.baseline_reading.throttle_reasons, found.candidate_ms) == (baseline, (2.0,))


def test_a_round_that_nothing_read_is_kept():
    assert round_of("candidate", ([1.0], None), ([2.0], None)).dropped is False


def test_unstable_is_what_scatters_or_was_throttled():
    steady = [1.0 + 0.001 * (index % 3) for index in range(12)]
    wild = [1.0 + 0.1 * (index % 3) for index in range(12)]
    assert why_unstable(made(steady), "cuda") is None
    assert "is known to" in why_unstable(made(wild), "cuda")
    assert why_unstable(made(wild), "cpu") is None
    assert why_unstable(made(steady, dropped=range(6)), "cuda") is None
    assert "5 of 12 rounds are left" in why_unstable(made(steady, dropped=range(7)), "cuda")
    # What was dropped does not scatter any more.
    assert why_unstable(made([*steady, 3.0, 3.0], dropped=(12, 13)), "cuda") is None


def test_the_claim_is_the_median_of_what_was_kept():
    trace = Trace()
    trace.rounds = [round_of("baseline", ([4.0], None), ([t], reading(r))) for t, r in ((1.0, 0), (2.0, 0), (9.0, 8))]
    assert trace.candidate_ms() == 1.5
    assert trace.baseline_ms() == 4.0


# --- the bound ----------------------------------------------------------------------------------------------


@pytest.fixture
def sharp_clock(monkeypatch):
    """A clock on which workers of the same code do not differ: what is asked is the rest of the rule."""
    monkeypatch.setattr("kbverified.judge.bound.TIMING_BOUND_RESOLUTION", {"cuda": 0.0, "cpu": 0.0})


def batch(wall_ms, launches_ms, count):
    """A batch of equal launches, from its sums."""
    return Batch((wall_ms / count,) * count, (launches_ms / count,) * count)


def bound(claim_ms, walls_ms, *, base_wall_ms=20.0, base_launches_ms=8.0, baseline_ms=1.0, count=8):
    found = Bound("cuda", baseline_ms, claim_ms)
    for wall in walls_ms:
        found.base.append(batch(base_wall_ms, base_launches_ms, count))
        found.candidate.append(batch(wall, 1e-3, count))
    return found


def test_the_bound_is_the_wall_less_what_the_baseline_shows_to_be_overhead():
    # The baseline: 20 ms for eight launches of 1 ms, so 1.5 ms of overhead each. The candidate: 28 / 8 - 1.5 = 2.
    found = bound(2.0, [28.0])
    assert found.t_judge_ms() == pytest.approx(2.0)
    assert (found.outcome(), found.settled()) == ("agreed", True)
    record = found.record()
    assert (record.k, record.batches, record.drift) == (8, 1, 1.0)
    assert record.undetected_gain_at_most == pytest.approx(28 / 8 / 2.0)


@pytest.mark.parametrize(("claim_ms", "outcome"), [(1.81, "agreed"), (1.79, "disputed"), (1e-6, "disputed")])
@pytest.mark.usefixtures("sharp_clock")
def test_a_claim_may_be_a_tenth_below(claim_ms, outcome):
    found = bound(claim_ms, [28.0])
    assert found.outcome() == outcome


def test_a_spell_that_meets_less_than_half_of_a_batch_counts_for_nothing():
    found = bound(2.0, [28.0])
    found.candidate[0] = Batch((3.5, 3.5, 9.0, 3.5, 8.0, 3.5, 7.0, 3.5), (1e-3,) * 8)
    found.base[0] = Batch((2.5, 6.0, 2.5, 2.5, 7.0, 2.5, 2.5, 2.5), (1.0,) * 8)
    assert found.t_judge_ms() == pytest.approx(2.0)


@pytest.mark.parametrize(("spread_ms", "outcome"), [(0.1, "disputed"), (0.3, "agreed")])
@pytest.mark.usefixtures("sharp_clock")
def test_a_claim_is_not_disputed_by_less_than_the_overheads_scatter(spread_ms, outcome):
    # Overheads of 1.5 ms, half of them spread_ms more: the lower quartile is 1.5, the upper 1.5 + spread_ms.
    found = bound(1.75, [28.0 + 8 * spread_ms / 2])
    found.base[0] = Batch((2.5, 2.5 + spread_ms) * 4, (1.0,) * 8)
    assert found.noise_ms() == pytest.approx(spread_ms)
    assert found.t_judge_ms() == pytest.approx(2.0)
    assert found.outcome() == outcome  # 0.25 ms apart


@pytest.mark.parametrize(("claim_ms", "outcome"), [(1.26, "agreed"), (1.24, "disputed")])
def test_nor_by_less_than_alike_workers_differ(claim_ms, outcome):
    found = bound(claim_ms, [28.0])  # 2 ms by the judge's clock, 1.5 ms of overhead: half of that is 0.75
    assert (found.noise_ms(), found.outcome()) == (pytest.approx(0.75), outcome)


@pytest.mark.usefixtures("sharp_clock")
def test_a_candidate_cannot_make_the_clock_look_worse_than_it_was_before_it_ran():
    found = bound(1.75, [28.0])
    found.base.append(Batch((2.5, 4.5) * 4, (1.0,) * 8))
    assert (found.noise_ms(), found.outcome()) == (0.0, "disputed")


@pytest.mark.usefixtures("sharp_clock")
def test_the_smallest_wall_counts_and_a_dispute_takes_five():
    unlucky = bound(2.0, [40.0])
    assert (unlucky.outcome(), unlucky.settled()) == ("disputed", False)
    assert bound(2.0, [40.0, 28.0]).outcome() == "agreed"
    assert bound(1.0, [28.0] * 4).settled() is False
    assert bound(1.0, [28.0] * 5).settled() is True


def test_a_dispute_does_not_keep_the_device_for_ever():
    assert bound(1.0, [28.0] * 2).settled() is False
    assert bound(1.0, [2900.0] * 2, base_wall_ms=200.0).settled() is True


def test_what_disturbs_a_baselines_batch_does_not_let_a_claim_pass():
    # Without the second batch the overhead looks like 3.5 ms and nothing is left of the candidate's launch.
    found = bound(0.01, [28.0])
    found.base[0] = batch(36.0, 8.0, 8)
    assert (found.t_judge_ms(), found.outcome(), found.settled()) == (0.0, "not_enforced", False)
    found.base.append(batch(20.0, 8.0, 8))
    found.candidate.append(batch(29.0, 1e-3, 8))
    assert (found.t_judge_ms(), found.outcome()) == (pytest.approx(2.0), "disputed")


def test_later_batches_of_the_baseline_can_only_tighten_what_the_first_allows():
    found = bound(0.01, [28.0])
    for wall in (200.0, 36.0):
        found.base.append(batch(wall, 30.0, 4))
        found.candidate.append(batch(28.0, 1e-3, 8))
    assert (found.overhead_ms(), found.drift()) == (1.5, 1.0)
    assert found.outcome() == "disputed"
    assert found.record().baseline_k == (8, 4, 4)


def test_short_launches_are_bounded_and_not_disputed():
    found = bound(0.01, [14.0])  # 14 / 8 - 1.5 = 0.25 ms
    assert (found.outcome(), found.settled()) == ("not_enforced", False)
    assert bound(0.01, [14.0] * 3).settled() is True
    assert found.record().undetected_gain_at_most == pytest.approx(175)


@pytest.mark.usefixtures("sharp_clock")
def test_a_baseline_that_is_slower_in_its_batch_excuses_the_candidate_as_far():
    assert bound(1.75, [28.0], baseline_ms=0.9).outcome() == "agreed"  # 1.75 * 1.11 against 1.9
    assert bound(1.75, [28.0], baseline_ms=1.0).outcome() == "disputed"
    assert bound(1.0, [28.0], baseline_ms=0.1).outcome() == "disputed"  # 1.15 at most


def test_a_permuted_output_is_read_as_it_was_copied():
    wanted = torch.arange(24.0).reshape(2, 1, 3, 4).permute(3, 0, 1, 2)
    raw = wanted.as_strided((24,), (1,)).clone().view(wanted.shape)
    assert not torch.equal(raw, wanted)
    (found,) = as_delivered([raw], [list(layout.dense_stride(wanted))])
    assert torch.equal(found, wanted)
    assert as_delivered([raw], [None])[0] is raw
    (found,) = as_delivered([raw], [[1, 12, 10**30, 4]])  # where the extent is 1 a stride means nothing
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "strides",
    [None, [], [None, None], [[1, 1]], [[0, 1]], [[6, 2]], [[-2, 1]], [[True, 3]], [[2.0, 1]], [[10**30, 1]], ["31"]],
)
def test_strides_that_are_no_order_of_the_output_are_no_answer(strides):
    with pytest.raises(CandidateFailure, match="protocol_violation"):
        as_delivered([torch.zeros(3, 2)], strides)


def test_a_batch_is_as_large_as_memory_and_time_allow():
    trace = Trace()
    trace.serve_ms, trace.compare_ms = [1.0], [2.0]

    def size(free_bytes, launches_ms):
        device = SimpleNamespace(release_cached=lambda: None, free_bytes=lambda: free_bytes)
        exchange = SimpleNamespace(in_bytes=600, out_bytes=400)
        return batch_size(SimpleNamespace(job=SimpleNamespace(device=device), exchange=exchange), trace, launches_ms)

    assert size(10**9, 1.0) == TIMING_BATCH_MAX
    assert size(10**9, 26.0) == 10  # 300 ms / (26 + 2 * 1 + 2)
    assert size(10**9, 1e6) == 1
    assert size(10**5, 1.0) == 10  # 0.4 * 100,000 bytes / (4 * 1000)
    assert size(0, 1.0) == 1


def test_nobody_accuses_himself_of_what_only_a_judge_can_say():
    assert {"time_disputed", "unstable", "pass"}.isdisjoint(FAILURES)
    assert _known_verdict("unstable") == _known_verdict("time_disputed") == "protocol_violation"
    assert _known_verdict("runtime_error") == "runtime_error"


# --- NVML ---------------------------------------------------------------------------------------------------


class FakeNvml:
    """As much of pynvml as is asked, with one question that this GPU does not answer."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    class NVMLError(Exception):
        pass

    def __getattr__(self, name):
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetClockInfo": 1755,
            "nvmlDeviceGetPowerUsage": 693500,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
        }

        def answer(*_):
            if name == "nvmlDeviceGetTemperature":
                raise self.NVMLError
            return answers[name]

        return answer


def test_a_reading_has_units_and_null_for_what_is_not_answered(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    found = Nvml("GPU-1")
    assert found.max_sm_clock_mhz == 1980
    assert found.reading() == DeviceReading(sm_clock_mhz=1755, temperature_c=None, power_w=693.5, throttle_reasons=4)


def test_nvml_is_started_once_for_a_gpu_and_not_before_it_is_asked(monkeypatch):
    made = []
    monkeypatch.setattr(nvml, "Nvml", lambda uuid: made.append(uuid) or object())
    nvml.of.cache_clear()
    try:
        devices.start_readings("cpu", lease.Gpu("GPU-1", "NVIDIA H200", "580.1", 143771, "9.0"))
        assert made == []
        devices.start_readings("cuda", lease.Gpu("GPU-1", "NVIDIA H200", "580.1", 143771, "9.0"))
        assert nvml.of("GPU-1") is nvml.of("GPU-1") and made == ["GPU-1"]
    finally:
        nvml.of.cache_clear()


def test_without_nvml_there_is_no_reading(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it raises
    found = Nvml("GPU-1")
    assert (found.reading(), found.sm_clock_mhz(), found.max_sm_clock_mhz) == (None, None, 0)


def test_rounds_that_waited_for_the_host_say_so_where_they_give_no_time():
    wild = [1.0, 1.5, 0.7, 1.4, 0.8, 1.3, 1.0, 1.5, 0.7, 1.4]
    rounds = [
        round_of("baseline", ([1.0, 1.0], None), ([t, t], None)).model_copy(update={"candidate_host_bound": bound})
        for t, bound in zip(wild, [2] * 6 + [0] * 4)
    ]
    assert host_bound_share(rounds, "candidate") == pytest.approx(0.6)
    assert host_bound_share(rounds, "baseline") == 0.0  # nothing is known of it
    told = why_unstable(rounds, "cuda")
    assert told is not None and told.endswith("the device waits for the host in 60 % of the candidate's launches")
    quick = [r.model_copy(update={"candidate_host_bound": 0}) for r in rounds]
    assert "host" not in (why_unstable(quick, "cuda") or "")


class ScriptedSide:
    """A side whose first turn takes longer than the others; ``turns`` counts them."""

    def __init__(self, turn_ms: float):
        self.turn_ms, self.turns, self.host_bound = turn_ms, 0, None
        self.wall_ms, self.repetitions, self.hot = turn_ms, 1, 0
        self.exchange = SimpleNamespace(offer=lambda inputs: None)
        self.job = SimpleNamespace(settings=SimpleNamespace(device="cuda"))

    def turn(self, deliver):
        self.turns += 1
        return [3.4 if self.turns == 1 else 3.03], None


@pytest.mark.parametrize(("turn_ms", "unrecorded", "recorded"), [(6.0, 1, 10), (2e3, 0, 6)])
def test_what_only_a_first_round_has_is_in_no_record_but_of_a_slow_kernel(monkeypatch, turn_ms, unrecorded, recorded):
    monkeypatch.setattr(rounds, "redraw", lambda reference: None)
    monkeypatch.setattr(rounds, "verify", lambda *arguments: None)
    a, b, trace = ScriptedSide(turn_ms), ScriptedSide(turn_ms), Trace()
    rounds.run_rounds(None, a, b, trace, budget_s=1.0)
    assert a.turns == b.turns == unrecorded + recorded
    assert len(trace.rounds) == recorded
    slow = [ms for r in trace.rounds for ms in (*r.baseline_ms, *r.candidate_ms) if ms != 3.03]
    assert len(slow) == (0 if unrecorded else 2)
