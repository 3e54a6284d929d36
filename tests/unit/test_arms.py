"""Arms, their intervals, labels and the reasons of what is missing in them."""

from pathlib import Path

import pytest
import record_factory as rf

from kbverified import arms, protocol
from kbverified.aggregation import AggregationSettings
from kbverified.records.files import RecordError
from kbverified.records.stages import TimeRecord

SETTINGS = AggregationSettings(resamples=200)
PATH = Path("results/time-fp32/g/s/level1_1/0.json")


def timing(stage, record):
    return arms.read_timing(stage, record, PATH)


def speedups(fp32, tf32, dtype="fp32", kind="cuda", ieee=None, compiled=None):
    records = {"time-fp32": fp32, "time-tf32": tf32, "time-ieee": ieee, "time-compile": compiled}
    return arms.arm_columns({s: timing(s, record) for s, record in records.items()}, dtype, kind, SETTINGS)


def test_three_arms_from_two_records(monkeypatch):
    monkeypatch.setattr(protocol, "BETWEEN_PROCESS_SD", {"cuda": 0.0})
    columns, reasons = speedups(rf.timing("time-fp32", 4.0, 2.0, rounds=6), rf.timing("time-tf32", 1.0, 1.25, rounds=6))
    assert columns["speedup_naive"] == 2.0
    assert columns["speedup_published"] == 0.5
    assert columns["speedup_matched"] == 0.8
    assert columns["speedup_matched_low"] == columns["speedup_matched_high"] == 0.8
    assert columns["speedup_published_low"] == columns["speedup_published_high"] == 0.5
    assert columns["matched_from"] == "time-tf32"
    assert columns["arms_note"] is None
    assert {arm for arm, why in reasons.items() if why} == {"speedup_ieee", "speedup_compile"}


def test_a_time_is_the_median_of_the_rounds_medians():
    rounds = [(1.0, 1.0, 9.0), (3.0, 3.0), (2.0,), (2.5, 2.5)]
    columns = arms.timing_columns(timing("time-fp32", rf.timing("time-fp32", rounds, [(1.0,)] * 4)), SETTINGS)
    assert columns["time_fp32_baseline_ms"] == 2.25  # of 1 3 2 2.5
    assert columns["time_fp32_candidate_ms"] == 1.0
    assert columns["time_fp32_baseline_name"] == "reference(default)"
    assert columns["time_fp32_baseline_alone_ms"] == 1.0


def test_too_few_rounds_give_a_speedup_without_an_interval():
    columns, reasons = speedups(rf.timing("time-fp32", 4.0, 2.0, rounds=5), None)
    assert columns["speedup_naive"] == 2.0
    assert columns["speedup_naive_low"] is None
    assert reasons["speedup_naive"] == "no interval: only 5 rounds"


def test_the_published_arm_needs_one_and_the_same_gpu():
    other = rf.GPU.model_copy(update={"uuid": "GPU-2"})
    columns, reasons = speedups(rf.timing("time-fp32", 4.0, 2.0), rf.timing("time-tf32", 1.0, 1.25, device=other))
    assert columns["speedup_published"] is None
    assert reasons["speedup_published"] == "not the same GPU: time-fp32 and time-tf32 ran on GPU-1 and GPU-2"
    assert columns["speedup_matched"] == 0.8


def test_an_unknown_gpu_is_not_the_same_gpu():
    nameless = rf.GPU.model_copy(update={"uuid": None})
    columns, reasons = speedups(
        rf.timing("time-fp32", 4.0, 2.0, device=nameless), rf.timing("time-tf32", 1.0, 1.25, device=nameless)
    )
    assert columns["speedup_published"] is None
    assert "None and None" in reasons["speedup_published"]


def test_a_cpu_is_labelled_and_has_no_published_arm():
    columns, reasons = speedups(
        rf.timing("time-fp32", 4.0, 2.0, device=rf.CPU), rf.timing("time-tf32", 4.0, 2.0, device=rf.CPU), kind="cpu"
    )
    assert columns["arms_note"].startswith("cpu: no TF32 unit")
    assert columns["speedup_naive"] == columns["speedup_matched"] == 2.0
    assert columns["speedup_published"] is None
    assert reasons["speedup_published"].startswith("cpu:")


def test_bf16_takes_matched_from_the_default_timing_and_says_so():
    tf32 = rf.skipped(TimeRecord, "time-tf32", "TF32 has no effect on bf16", dtype="bf16")
    columns, reasons = speedups(rf.timing("time-fp32", 4.0, 2.0, rounds=6, dtype="bf16"), tf32, dtype="bf16")
    assert columns["speedup_matched"] == columns["speedup_naive"] == 2.0
    assert columns["matched_from"] == "time-fp32"
    assert columns["arms_note"].startswith("bf16: precision modes have no effect")
    assert columns["speedup_published"] is None
    assert reasons["speedup_published"] == "time-tf32 skipped: TF32 has no effect on bf16"


def test_a_failed_timed_output_takes_the_times_away():
    bad = rf.timing("time-fp32", 4.0, 2.0, rounds=6, verdict="wrong_value")
    found = timing("time-fp32", bad)
    assert (found.baseline, found.why_null) == ((), "time-fp32: wrong_value")
    columns = arms.timing_columns(found, SETTINGS)
    assert columns["time_fp32_verdict"] == "wrong_value"
    assert "time_fp32_candidate_ms" not in columns
    columns, reasons = speedups(bad, rf.timing("time-tf32", 1.0, 1.25, rounds=6))
    assert columns["speedup_naive"] is None and columns["speedup_published"] is None
    assert reasons["speedup_naive"] == reasons["speedup_published"] == "time-fp32: wrong_value"
    assert columns["speedup_matched"] == 0.8


@pytest.mark.parametrize("verdict", ["time_disputed", "unstable"])
def test_a_time_that_nobody_believes_is_none(verdict):
    columns, reasons = speedups(rf.timing("time-fp32", 4.0, 2.0, rounds=6, verdict=verdict), None)
    assert columns["speedup_naive"] is None
    assert reasons["speedup_naive"] == f"time-fp32: {verdict}"


def test_dropped_rounds_count_for_nothing():
    record = rf.timing("time-fp32", 4.0, 2.0, rounds=7)
    slow = record.rounds[3].model_copy(update={"candidate_ms": (40.0,), "dropped": True})
    record = record.model_copy(update={"rounds": (*record.rounds[:3], slow, *record.rounds[4:]), "rounds_dropped": 1})
    columns = arms.timing_columns(timing("time-fp32", record), SETTINGS)
    assert (columns["time_fp32_rounds"], columns["time_fp32_rounds_dropped"]) == (6, 1)
    speedup, _ = speedups(record, None)
    assert speedup["speedup_naive_low"] == speedup["speedup_naive"] == 2.0


def test_the_variance_between_processes_widens_every_interval(monkeypatch):
    records = rf.timing("time-fp32", 4.0, 2.0, rounds=6), rf.timing("time-tf32", 1.0, 1.25, rounds=6)
    columns, _ = speedups(*records)
    assert "no A/A study" in columns["arms_note"]
    monkeypatch.setattr(protocol, "BETWEEN_PROCESS_SD", {"cuda": 0.01})
    columns, _ = speedups(*records)
    assert columns["arms_note"] is None
    for arm, value in (("naive", 2.0), ("published", 0.5), ("matched", 0.8)):
        assert columns[f"speedup_{arm}"] == pytest.approx(value)
        assert columns[f"speedup_{arm}_high"] == pytest.approx(value * 1.0198, rel=1e-4)
        assert columns[f"speedup_{arm}_low"] == pytest.approx(value / 1.0198, rel=1e-4)


def test_a_candidate_that_sets_precision_has_no_naive_arm_but_its_number_is_kept():
    changed = rf.timing("time-fp32", 4.0, 2.0, rounds=6, flags_after=rf.flags(True, True))
    columns, reasons = speedups(changed, rf.timing("time-tf32", 1.0, 1.25, rounds=6))
    assert columns["speedup_naive"] is None
    assert columns["speedup_flags_changed"] == 2.0
    assert "changed precision flags" in reasons["speedup_naive"]
    assert columns["speedup_matched"] == 0.8


def test_times_in_another_mode_are_not_called_by_an_arms_name():
    ieee = rf.timing("time-fp32", 4.0, 2.0, mode="ieee")
    columns, reasons = speedups(ieee, rf.timing("time-tf32", 1.0, 1.25))
    assert columns["speedup_naive"] is None and columns["speedup_published"] is None
    assert reasons["speedup_naive"] == "time-fp32 ran in mode ieee; the naive arm is defined in default"
    assert columns["speedup_matched"] == 0.8


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_time_that_is_none_names_the_file(value):
    with pytest.raises(RecordError, match=r"level1_1/0\.json: field rounds: a time of 0 ms or less"):
        timing("time-fp32", rf.timing("time-fp32", 1.0, value))


def test_flags_are_compared_with_before_and_with_the_mode():
    gate, fp32, tf32 = rf.gate(), rf.timing("time-fp32", 1.0, 1.0), rf.timing("time-tf32", 1.0, 1.0)
    columns, why = arms.flag_columns({"hidden-gate": gate, "time-fp32": fp32, "time-tf32": tf32})
    assert (columns["flags_changed"], columns["precision_flags_changed"], why) == (False, False, None)

    benchmark = rf.timing("time-fp32", 1.0, 1.0, flags_after=rf.flags(False, True, cudnn_benchmark=True))
    columns, _ = arms.flag_columns({"hidden-gate": gate, "time-fp32": benchmark})
    assert (columns["flags_changed"], columns["precision_flags_changed"]) == (True, False)
    assert columns["flags_changed_in"] == "time-fp32"

    # Set before the first look, so that before and after agree, but not with the mode.
    early = rf.gate().model_copy(update={"flags_before": rf.flags(True, True), "flags_after": rf.flags(True, True)})
    columns, _ = arms.flag_columns({"hidden-gate": early})
    assert (columns["flags_changed"], columns["precision_flags_changed"]) == (True, True)


def test_flags_that_nobody_read_are_unknown():
    columns, why = arms.flag_columns(
        {"hidden-gate": None, "time-fp32": rf.timing("time-fp32", 1.0, 1.0).model_copy(update={"flags_after": None})}
    )
    assert columns == {}
    assert why == "no hidden-gate record; time-fp32: no flags"


# --- optional baselines -------------------------------------------------------------------------------------


def test_an_optional_arm_comes_from_its_own_record_alone():
    columns, reasons = speedups(
        rf.timing("time-fp32", 4.0, 2.0, rounds=6),
        rf.timing("time-tf32", 1.0, 1.25, rounds=6),
        ieee=rf.timing("time-ieee", 6.0, 2.0, rounds=6),
        compiled=rf.timing("time-compile", 0.5, 1.25, rounds=6),
    )
    assert (columns["speedup_ieee"], columns["speedup_ieee_low"]) == pytest.approx((3.0, 3.0))
    assert (columns["speedup_compile"], columns["speedup_compile_high"]) == pytest.approx((0.4, 0.4))
    assert (columns["speedup_naive"], columns["speedup_published"], columns["speedup_matched"]) == (2.0, 0.5, 0.8)
    assert not any(reasons.values())


def test_an_optional_arm_that_was_not_measured_says_why():
    skipped = rf.skipped(TimeRecord, "time-compile", "torch.compile changes the answer: off by 0.5")
    columns, reasons = speedups(None, None, compiled=skipped)
    assert columns["speedup_ieee"] is columns["speedup_compile"] is None
    assert reasons["speedup_ieee"] == "no time-ieee record"
    assert reasons["speedup_compile"] == "time-compile skipped: torch.compile changes the answer: off by 0.5"


def test_a_candidate_that_takes_tf32_has_no_ieee_arm():
    changed = rf.timing("time-ieee", 6.0, 2.0, rounds=6, flags_after=rf.flags(True, True))
    columns, reasons = speedups(None, None, ieee=changed)
    assert columns["speedup_ieee"] is None
    assert reasons["speedup_ieee"] == "the candidate changed precision flags in time-ieee"


def test_the_baseline_is_named_for_what_it_is():
    columns = arms.timing_columns(timing("time-compile", rf.timing("time-compile", 0.5, 1.0, rounds=6)), SETTINGS)
    assert columns["time_compile_baseline_name"] == "compiled reference(tf32)"
    assert (columns["time_compile_compile_s"], columns["time_compile_graphs"]) == (20.0, 1)
    assert columns["time_compile_answer_tolerance"] == 1e-5
    columns = arms.timing_columns(timing("time-ieee", rf.timing("time-ieee", 0.5, 1.0, rounds=6)), SETTINGS)
    assert columns["time_ieee_baseline_name"] == "reference(ieee)"
