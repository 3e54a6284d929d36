"""Floors and scores from numbers alone, and what an impossible time does to a row and to the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_factory as rf

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings, candidate_row
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.build import build
from kbverified.leaderboard.conditions import to_review
from kbverified.records.files import write
from kbverified.records.problem import InputNeed, ProblemRecord, TensorSpec
from kbverified.roofline import floor
from kbverified.roofline.floor import Floor, below, floor_of, rates, sol_score
from kbverified.roofline.score import mean_interval

PROBLEM = ProblemKey("kb", "level1_19")
KEY = CandidateKey("gen", "kb", "level1_19", 0)
SETTINGS = AggregationSettings(resamples=200)
MIB = 1 << 20
GPU = rates(rf.ceilings())
CPU = rates(rf.ceilings(device=rf.CPU))


def audited(input_bytes: int, output_bytes: int, **changes: Any) -> ProblemRecord:
    return rf.problem(PROBLEM, **rf.needs(input_bytes, output_bytes, **changes))


def found(*arguments: Any) -> Floor:
    result = floor_of(*arguments)
    assert isinstance(result, Floor), result
    return result


# --- rates --------------------------------------------------------------------------------------------------
def test_the_best_repetition_of_the_best_kind_is_the_ceiling() -> None:
    assert (GPU.bandwidth, GPU.ieee, GPU.tf32, GPU.bf16) == pytest.approx((4e12, 50e12, 400e12, 800e12))
    assert GPU.cold_cache and not CPU.cold_cache


def test_a_device_without_tf32_has_its_ieee_rate_for_it() -> None:
    whole = rf.ceilings()
    runs = tuple(run for run in whole.runs if run.mode != "tf32")
    assert rates(whole.model_copy(update={"runs": runs})).tf32 == pytest.approx(50e12)


@pytest.mark.parametrize(("what", "name"), [("matmul", "ieee, bf16"), ("copy", "copy")])
def test_a_kind_that_was_not_measured_is_named(what: str, name: str) -> None:
    whole = rf.ceilings()
    memory = {"copy", "read"}
    runs = tuple(r for r in whole.runs if (r.what in memory) != (what in memory))
    with pytest.raises(ValueError, match=f"no {name}"):
        rates(whole.model_copy(update={"runs": runs}))


# --- bytes --------------------------------------------------------------------------------------------------
def test_on_a_gpu_outputs_may_stay_in_the_cache_and_inputs_may_not() -> None:
    assert found(audited(400 * MIB, 60 * MIB), GPU, "ieee", "fp32").hard_ms == pytest.approx(1e3 * 400 * MIB / 4e12)
    assert found(audited(0, 460 * MIB), GPU, "ieee", "fp32").hard_ms == pytest.approx(1e3 * 400 * MIB / 4e12)
    assert found(audited(4 * MIB, 0), GPU, "ieee", "fp32").hard_ms == pytest.approx(1e3 * 4 * MIB / 4e12)


def test_on_a_cpu_whatever_fits_the_cache_may_be_there() -> None:
    assert "fits the cache" in str(floor_of(audited(30 * MIB, 30 * MIB), CPU, "ieee", "fp32"))
    assert found(audited(50 * MIB, 50 * MIB), CPU, "ieee", "fp32").hard_ms == pytest.approx(1e3 * 40 * MIB / 4e12)


def test_weights_are_in_the_floor_and_not_in_the_hard_one() -> None:
    one = found(audited(400 * MIB, 0, weight_needed_bytes=400 * MIB), GPU, "ieee", "fp32")
    assert one.bound == "bytes" and one.floor_ms == pytest.approx(2 * one.hard_ms)


def test_bf16_halves_what_was_fp32_and_nothing_else() -> None:
    problem = audited(400 * MIB, 400 * MIB)
    assert floor.needed_bytes(problem, "fp32") == (400 * MIB, 400 * MIB)
    assert floor.needed_bytes(problem, "bf16") == (200 * MIB, 200 * MIB)
    indices = problem.model_copy(update={"inputs": (TensorSpec(shape=(50 * MIB,), dtype="int64"),)})
    assert floor.needed_bytes(indices, "bf16") == (400 * MIB, 200 * MIB)


def test_without_an_audit_of_needs_or_a_cache_there_is_no_floor() -> None:
    assert "audit" in str(floor_of(None, GPU, "ieee", "fp32"))
    assert "audit" in str(floor_of(rf.problem(PROBLEM), GPU, "ieee", "fp32"))
    assert "cache" in str(floor_of(audited(400, 400), rates(rf.ceilings(cache_bytes=None)), "ieee", "fp32"))


# --- FLOPs --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "dtype", "floor_ms"),
    [
        ("ieee", "fp32", 1e3 * (1e12 + 16e12) / 50e12),
        ("default", "fp32", 1e3 * 16e12 / 400e12),  # matmul beside it on other units takes 20 ms, less than 40
        ("tf32", "fp32", 1e3 * (1e12 + 16e12) / 400e12),
        ("default", "bf16", 1e3 * (1e12 + 16e12) / 800e12),
    ],
)
def test_each_mode_gives_each_operator_its_unit(mode: str, dtype: str, floor_ms: float) -> None:
    problem = audited(4 * MIB, 4 * MIB, flops=17 * 10**12, flops_matmul=10**12, flops_cudnn=16 * 10**12)
    one = found(problem, GPU, mode, dtype)
    assert one.bound == "flops" and one.floor_ms == pytest.approx(floor_ms)


def test_a_problem_in_sixteen_bits_is_held_to_the_rate_of_sixteen_bits() -> None:
    half = audited(4 * MIB, 4 * MIB, flops=10**12, flops_matmul=10**12, flops_cudnn=0)
    half = half.model_copy(update={"inputs": (TensorSpec(shape=(2 * MIB,), dtype="float16"),)})
    assert found(half, GPU, "ieee", "fp32").floor_ms == pytest.approx(1e3 * 1e12 / 800e12)


# --- scores -------------------------------------------------------------------------------------------------
def test_the_score_is_a_half_at_the_baseline_and_one_at_the_floor() -> None:
    assert sol_score(4.0, 4.0, 1.0) == 0.5
    assert sol_score(4.0, 1.0, 1.0) == 1.0
    assert sol_score(4.0, 2.0, 1.0) == pytest.approx(0.75)
    assert sol_score(4.0, 7.0, 1.0) == pytest.approx(1 / 3)


def test_the_score_ends_at_one_and_needs_room_below_the_baseline() -> None:
    assert sol_score(4.0, 0.5, 1.0) == 1.0
    assert sol_score(1.0, 2.0, 1.0) is None
    assert sol_score(0.9, 0.5, 1.0) is None


def test_below_means_by_more_than_the_margin() -> None:
    assert below(0.89, 1.0, 0.1) and not below(0.91, 1.0, 0.1) and not below(1.1, 1.0, 0.1)


def test_the_interval_of_a_mean_holds_it_and_knows_how_many_there_are() -> None:
    values = [0.5, 0.6, 0.7, None, 0.4, 0.55, 0.65, 0.45]
    draws = np.random.default_rng(0).multinomial(8, [1 / 8] * 8, size=500).astype(np.float64)
    interval = mean_interval(values, draws)
    present = [value for value in values if value is not None]
    assert interval is not None and interval.low < sum(present) / 7 < interval.high
    assert min(present) <= interval.low and interval.high <= max(present)
    assert mean_interval([0.5, None, 0.6], np.ones((500, 3))) is None


# --- rows ---------------------------------------------------------------------------------------------------
def row_of(root: Path, fp32: tuple[float, float], tf32: tuple[float, float], ceilings: Any = None, **audit: Any) -> Any:
    """A row of a candidate with these (baseline, candidate) times in ms; 2 GiB must move: 0.537 ms, less the cache."""
    if ceilings is not False:
        write(root / "results/ceilings/cuda.json", ceilings or rf.ceilings())
    rf.write_problem(root, PROBLEM, **(rf.needs(1 << 30, 1 << 30) | audit))
    stages = rf.good_stages() | {
        "time-fp32": rf.timing("time-fp32", *fp32, rounds=6),
        "time-tf32": rf.timing("time-tf32", *tf32, rounds=6),
    }
    rf.write_candidate(root, KEY, stages)
    return candidate_row(root, KEY, SETTINGS)


def test_a_row_has_floors_fractions_scores_and_the_ceilings_they_come_from(tmp_path: Path) -> None:
    row = row_of(tmp_path, (2.0, 1.0), (2.0, 1.0), flops=10**11, flops_matmul=10**11, flops_cudnn=0)
    moving_ms = 1e3 * ((2 << 30) - (60 << 20)) / 4e12
    assert row["ceiling_bytes_per_s"] == pytest.approx(4e12) and row["ceiling_cache_bytes"] == 60 << 20
    assert (row["time_fp32_floor_bound"], row["time_tf32_floor_bound"]) == ("flops", "bytes")
    assert row["time_fp32_floor_ms"] == pytest.approx(2.0) and row["time_fp32_baseline_roofline"] == pytest.approx(1.0)
    assert row["time_tf32_floor_ms"] == row["time_tf32_hard_floor_ms"] == pytest.approx(moving_ms)
    assert row["time_tf32_candidate_roofline"] == pytest.approx(moving_ms)
    assert row["time_tf32_sol_score"] == pytest.approx(1 / (1 + (1 - moving_ms) / (2 - moving_ms)))
    assert row["why_null_roofline_time_tf32"] is None and row["why_null_ceilings"] is None


def test_faster_than_the_flops_allow_is_marked_and_counts(tmp_path: Path) -> None:
    row = row_of(tmp_path, (2.5, 1.0), (2.0, 1.0), flops=10**11, flops_matmul=10**11, flops_cudnn=0)
    assert row["time_fp32_below_floor"] is True and row["time_fp32_implausible"] is False
    assert row["below_floor_in"] == "time-fp32" and row["implausible_in"] is None
    assert row["speedup_naive"] == pytest.approx(2.5) and row["time_fp32_sol_score"] == 1.0
    assert "than the reference's FLOPs" in str(to_review(row, 10.0))


def test_faster_than_bytes_can_move_is_implausible_and_has_no_speedup(tmp_path: Path) -> None:
    row = row_of(tmp_path, (2.0, 0.4), (2.0, 1.0))
    assert row["time_fp32_implausible"] is True and row["implausible_in"] == "time-fp32"
    assert row["speedup_naive"] is None and row["speedup_naive_low"] is None and row["speedup_published"] is None
    assert "implausible: time-fp32 claims 0.4 ms" in row["why_null_speedup_naive"]
    assert row["speedup_matched"] == pytest.approx(2.0) and row["time_fp32_candidate_ms"] == 0.4
    assert "implausible in time-fp32" in str(to_review(row, 10.0))


def test_on_a_cpu_it_is_marked_and_keeps_its_speedup(tmp_path: Path) -> None:
    write(tmp_path / "results/ceilings/cpu.json", rf.ceilings(device=rf.CPU))
    rf.write_problem(tmp_path, PROBLEM, **rf.needs(1 << 30, 1 << 30))
    stages = {"time-fp32": rf.timing("time-fp32", 2.0, 0.4, rounds=6, device=rf.CPU)}
    rf.write_candidate(tmp_path, KEY, stages)
    row = candidate_row(tmp_path, KEY, AggregationSettings(resamples=200, allow_mixed=True))
    assert row["implausible_in"] == "time-fp32" and row["speedup_naive"] == pytest.approx(5.0)


def test_within_the_margin_of_the_floor_is_not_implausible(tmp_path: Path) -> None:
    row = row_of(tmp_path, (2.0, 0.5), (2.0, 0.5))
    assert row["implausible_in"] is None and row["speedup_matched"] == pytest.approx(4.0)


def test_what_an_input_holds_and_no_output_needs_makes_no_claim_implausible(tmp_path: Path) -> None:
    need = InputNeed(varying_bytes=1 << 30, probes=20, hits=0, needed_bytes=0)
    row = row_of(tmp_path, (2.0, 0.4), (2.0, 0.4), input_needs=(need,))
    assert row["implausible_in"] is None and row["speedup_naive"] == pytest.approx(5.0)


def test_ceilings_that_are_missing_or_of_another_device_give_no_floor_and_say_so(tmp_path: Path) -> None:
    row = row_of(tmp_path / "a", (2.0, 0.1), (2.0, 0.1), ceilings=False)
    assert row["time_tf32_floor_ms"] is None and "no results/ceilings/cuda.json" in row["why_null_ceilings"]
    assert row["speedup_matched"] == pytest.approx(20.0)
    other = rf.ceilings(device=rf.GPU.model_copy(update={"driver": "590"}))
    row = row_of(tmp_path / "b", (2.0, 0.1), (2.0, 0.1), ceilings=other)
    assert "another device" in row["why_null_roofline_time_tf32"] and "590" in row["why_null_ceilings"]
    same_model = rf.ceilings(device=rf.GPU.model_copy(update={"uuid": "GPU-2"}))
    assert row_of(tmp_path / "c", (2.0, 1.0), (2.0, 1.0), ceilings=same_model)["why_null_ceilings"] is None


def test_the_leaderboard_has_the_mean_score_and_counts_what_cannot_be(tmp_path: Path) -> None:
    rows = [row_of(tmp_path, (2.0, 0.4), (2.0, 1.0))]
    problem = {PROBLEM: audited(1 << 30, 1 << 30)}
    board = build({"gen": kernel_table.frame(rows)}, problem, SETTINGS)
    matched, naive, published = (
        board.entry("gen", "kb", None, arm, "hidden") for arm in ("matched", "naive", "published")
    )
    assert matched is not None and naive is not None and published is not None
    assert matched.sol_score.value == pytest.approx(rows[0]["time_tf32_sol_score"]) and matched.sol_score.n == 1
    assert (matched.n_implausible, naive.n_implausible, published.n_implausible) == (0, 1, 1)
    assert naive.n_timed == 0 and "implausible" in str(naive.correct_speedup.why_null)
    assert published.sol_score.value is None and "two records" in str(published.sol_score.why_null)
    assert board.generators[0].n_implausible == 1 and board.conditions.ceilings == (
        "4 TB/s; ieee 50, tf32 400, bf16 800 TFLOP/s",
    )
