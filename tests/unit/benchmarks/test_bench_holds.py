"""Holds, launches and rates out of records that are known to the last number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import record_factory as make

from benchmarks import end_to_end, holds, launches, run_records, summaries
from kbverified.keys import CandidateKey

ROOT = Path(__file__).resolve().parents[3]
ARCHIVE = ROOT / "docs/runs/2026-11-29-h200x2-b.tar.xz"
KEY = CandidateKey("gen", "kernelbench", "level2_12", 0)


def candidate(root: Path, key: CandidateKey, start_s: int = 0, hold_s: float = 2.0, **changes: Any) -> None:
    """All stages, one after the other: 10 s each, of which 3 wait and ``hold_s`` hold."""

    def times(n: int) -> dict[str, Any]:
        minutes, seconds = divmod(start_s + 10 * n, 60)
        return {
            "started_at": f"2026-01-01T00:{minutes:02}:{seconds:02}+00:00",
            "duration_s": 10.0,
            "device_wait_s": 3.0,
            "device_hold_s": hold_s,
        }

    compiled = times(0) | {"device_wait_s": None, "device_hold_s": None}
    stages = {
        "compile": make.compiled(**compiled).model_copy(update={"cpu_seconds": 40.0}),
        "hidden-gate": make.gate(**times(1)),
        "time-fp32": make.timing("time-fp32", 4.0, 2.0, **times(2)),
        "time-tf32": make.timing("time-tf32", 4.0, 2.0, **times(3)),
        "memory": make.memory(2000, 1000, **times(4)),
    }
    make.write_candidate(root, key, stages | changes)
    make.write_problem(root, key.problem_key)


def test_launches_of_a_timing_stage_are_the_recorded_and_the_unrecorded_ones() -> None:
    # 4 rounds of 3 at 4 and 2 ms, alone 3 at 4 ms; unrecorded: 11 to warm up, one or two hot ones a turn (6 and 5
    # turns, with that before the batch), a batch of 8.
    record = make.timing("time-fp32", 4.0, 2.0)
    assert launches.launches_s(record, None) == pytest.approx(
        1e-3 * (12 * 4 + 12 * 2 + 3 * 4 + (11 + 6 + 8) * 4 + (11 + 10 + 8) * 2)
    )


def test_slow_launches_have_a_short_warm_up_and_none_to_get_hot() -> None:
    record = make.timing("time-fp32", 200.0, 200.0)
    assert launches.launches_s(record, None) == pytest.approx(1e-3 * 200 * (12 + 12 + 3 + 2 + 2 + 8 + 8))


def test_launches_of_gate_and_memory_come_from_the_candidates_times() -> None:
    assert launches.launches_s(make.gate(), (4.0, 2.0)) == pytest.approx(1e-3 * 4 * 6)
    three = make.gate({"d1_original": 0.0, "d2_scale_3": 0.0, "d3_scale_0.01": None, "d4_negate": 0.0})
    assert launches.launches_s(three, (4.0, 2.0)) == pytest.approx(1e-3 * 3 * 6)
    assert launches.launches_s(make.memory(2, 1), (4.0, 2.0)) == pytest.approx(1e-3 * 16)
    assert launches.launches_s(make.gate(), None) is None, "unknown is not 0"
    assert launches.launches_s(make.gate(verdict="crash", detail="it died"), (4.0, 2.0)) is None


def test_parts_of_a_stage_add_up(tmp_path: Path) -> None:
    candidate(tmp_path, KEY)
    found = {hold.stage: hold for hold in launches.holds(run_records.load([tmp_path]))}
    assert set(found) == set(launches.GPU_STAGES)
    assert all((one.wait_s, one.hold_s, one.cpu_part_s) == (3.0, 2.0, 5.0) for one in found.values())
    assert found["time-fp32"].beyond_s == pytest.approx(2.0 - 0.242)
    ramped = make.timing("time-fp32", 4.0, 2.0, device_hold_s=2.0, duration_s=9.0).model_copy(update={"ramp_s": 0.5})
    candidate(tmp_path, KEY, **{"time-fp32": ramped})
    [again] = [hold for hold in launches.holds(run_records.load([tmp_path])) if hold.stage == "time-fp32"]
    assert again.beyond_without_ramp_s == pytest.approx(1.5 - 0.242)
    said = holds.text(holds.summarize(run_records.load([tmp_path]), cores=16))
    assert "at most 1.5 s: hidden-gate not met, time-fp32 met, time-tf32 not met, memory not met" in said


def test_the_four_stages_together_against_target_and_published_cost(tmp_path: Path) -> None:
    candidate(tmp_path, KEY)
    candidate(tmp_path, CandidateKey("gen", "other-suite", "level2_12", 0), hold_s=1.0)
    candidate(tmp_path, CandidateKey("gen", "kernelbench", "level1_7", 0), memory=None)
    summary = holds.summarize(run_records.load([tmp_path]), cores=16)
    [ours, other] = summary.together
    assert (ours.hold_s, ours.target_s, ours.ratio) == (8.0, 8.0, pytest.approx(97 / 8))
    assert (other.hold_s, other.target_s, other.ratio) == (4.0, None, None), "another suite has other shapes"
    assert "8: met" in holds.text(summary)


def test_what_a_hold_went_into_is_told_where_the_records_do(tmp_path: Path) -> None:
    parts = {"open": 0.5, "rounds": 1.25}
    timed = make.timing("time-fp32", 4.0, 2.0, device_hold_s=2.0, duration_s=9.0, device_hold_parts_s=parts)
    candidate(tmp_path, KEY, **{"time-fp32": timed})
    said = holds.text(holds.summarize(run_records.load([tmp_path]), cores=16))
    assert "time-fp32 went into: open 0.50, rounds 1.25" in said and "memory went into" not in said


def test_rates_from_means(tmp_path: Path) -> None:
    candidate(tmp_path, KEY)
    run = run_records.load([tmp_path])
    rates = holds.summarize(run, cores=16).rates
    assert rates is not None and rates.gpu_s == 8.0 and rates.by_gpu == 450.0
    assert rates.cpu_s == 40.0 + 5.0 * (2 + 3 + 3 + 3) and rates.by_cores == pytest.approx(3600 * 16 / 95)
    assert rates.both == 450.0 and rates.cpu_from.startswith("at most")
    measured = holds.summarize(run, 16, dict.fromkeys(launches.GPU_STAGES, 10.0)).rates
    assert measured is not None and measured.cpu_s == 80.0 and measured.cpu_from == "measured"


def test_a_cpu_is_held_against_no_gpu(tmp_path: Path) -> None:
    candidate(tmp_path, KEY)
    run = run_records.load([tmp_path])
    cpu = {"device": make.CPU}
    for name, record in run.stages.items():
        provenance = record.provenance.model_copy(update=cpu if record.provenance.device else {})
        run.stages[name] = record.model_copy(update={"provenance": provenance})
    run.audits.clear()
    summary = holds.summarize(run, cores=16)
    assert summary.together[0].target_s is None and summary.together[0].ratio is None
    assert summary.rates is not None and summary.rates.published_by_gpu is None
    assert "published evaluator" not in holds.text(summary)
    assert end_to_end.measure("cpu", run).over_published is None


def test_without_holds_there_is_no_rate(tmp_path: Path) -> None:
    make.write_candidate(tmp_path, KEY)
    summary = holds.summarize(run_records.load([tmp_path]), cores=16)
    assert summary.stages == [] and summary.rates is None and summary.together == []
    assert "no candidate has all four GPU stages" in holds.text(summary)


def test_an_archive_of_device_run_is_read() -> None:
    run = run_records.load([ARCHIVE])
    assert len(run.reports) == 1 and run.devices() == {"NVIDIA H200"}
    assert len([hold for hold in launches.holds(run) if hold.stage == "hidden-gate"]) == 13
    assert len(holds.summarize(run, 16).together) == 3


def test_an_empty_place_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert holds.main([str(tmp_path)]) == 2 and "no record" in capsys.readouterr().err
    assert holds.main([str(tmp_path / "none")]) == 2
    assert end_to_end.main([str(tmp_path / "none")]) == 2


# --- end to end ----------------------------------------------------------------------------------------------
def test_candidates_an_hour_from_the_records_own_times(tmp_path: Path) -> None:
    for n in range(3):  # the last stages end at 50, 80 and 110 s
        candidate(tmp_path, CandidateKey("gen", "kernelbench", f"level1_{n + 1}", 0), start_s=30 * n)
    candidate(tmp_path, KEY, memory=None)
    whole = end_to_end.measure("here", run_records.load([tmp_path]))
    assert (whole.wall_s, whole.done, whole.candidates, whole.timed) == (110.0, 3, 4, 3)
    assert whole.per_hour == pytest.approx(3600 * 3 / 110) and whole.at_pace_per_hour == pytest.approx(3600 * 2 / 60)
    assert whole.gpu_busy == pytest.approx((3 * 4 + 3) * 2.0 / 110)
    assert whole.over_published == (
        pytest.approx(whole.per_hour * 97 / 3600),
        pytest.approx(whole.per_hour * 283 / 3600),
    )


def test_the_reports_own_times_count_where_there_is_one() -> None:
    whole = end_to_end.measure("b", run_records.load([ARCHIVE]))
    assert (whole.wall_s, whole.gpus, whole.cores, whole.candidates, whole.done) == (314.0, 2, 32, 47, 8)


def test_a_run_in_several_calls_is_as_long_as_its_calls_together(tmp_path: Path) -> None:
    for n, start_s in enumerate((0, 30, 1000)):
        candidate(tmp_path, CandidateKey("gen", "kernelbench", f"level1_{n + 1}", 0), start_s=start_s)
    for path in (tmp_path / "results/problems").rglob("*.json"):
        path.unlink()
    whole = end_to_end.measure("here", run_records.load([tmp_path]))
    assert whole.wall_s == 80.0 + 50.0 and whole.done == 3 and whole.at_pace_per_hour is None


def test_a_report_does_not_tell_of_the_calls_that_it_went_on_from() -> None:
    path = ROOT / "docs/runs/2026-11-29-h200x2-c.tar.xz"
    whole = end_to_end.measure("c", run_records.load([path]))
    assert whole.gpu_busy is not None and whole.gpu_busy < 1.0, "122 s of the last call would make it 4.8"
    assert 532 + 328 + 122 - 60 < whole.wall_s < 532 + 328 + 122 + 60


def test_one_candidate_has_no_pace() -> None:
    assert end_to_end.pace_per_hour([5.0]) is None
    assert end_to_end.pace_per_hour([5.0, 5.0]) is None
    assert end_to_end.pace_per_hour([0.0, 10.0, 20.0]) == 360.0


# --- summaries -----------------------------------------------------------------------------------------------
def test_quartiles_of_what_is_there() -> None:
    found = summaries.spread([4.0, None, 1.0, 2.0, 3.0, 5.0])
    assert found is not None and (found.n, found.low, found.median, found.high) == (5, 2.0, 3.0, 4.0)
    assert (found.largest, found.mean) == (5.0, 3.0)
    assert summaries.spread([None]) is None


def test_a_ratio_has_an_interval_where_there_are_pairs_enough() -> None:
    ones = [1.0] * 8
    many = summaries.ratio([2.0, 8.0] * 4, ones)
    assert many is not None and many.value == pytest.approx(4.0)
    assert many.low is not None and many.high is not None and 2.0 <= many.low < 4.0 < many.high <= 8.0
    few = summaries.ratio([2.0, 8.0], [1.0, 1.0])
    assert few is not None and few.low is None and few.text() == "4.00"
    assert summaries.ratio([], []) is None
    with pytest.raises(ValueError, match="no pairs"):
        summaries.ratio([1.0], [0.0])
