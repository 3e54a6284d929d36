"""Metrics against values worked out by hand."""

import math
import random

import pytest

from kbverified import metrics


@pytest.mark.parametrize(
    ("critical", "tau", "expected"),
    [(1e-3, 1e-3, True), (0.0, 1e-3, True), (1.0000001e-3, 1e-3, False), (None, 1e-3, None)],
)
def test_critical_tolerance_equal_to_tau_passes(critical, tau, expected):
    assert metrics.within_tolerance(critical, tau) is expected


def test_tau_must_be_positive():
    with pytest.raises(ValueError, match="not positive"):
        metrics.within_tolerance(0.0, 0.0)


def test_arms_divide_what_protocol_says():
    # KernelBench level2 12 with a candidate that calls cuBLAS, as measured on an H200.
    times = {
        "baseline_default_ms": 2.87,
        "candidate_default_ms": 2.85,
        "baseline_tf32_ms": 0.386,
        "candidate_tf32_ms": 0.390,
    }
    assert metrics.speedup("naive", **times) == pytest.approx(1.007, abs=5e-4)
    assert metrics.speedup("published", **times) == pytest.approx(0.1354, abs=5e-5)
    assert metrics.speedup("matched", **times) == pytest.approx(0.9897, abs=5e-5)


@pytest.mark.parametrize(
    ("arm", "missing"),
    [
        ("naive", "baseline_default_ms"),
        ("naive", "candidate_default_ms"),
        ("published", "baseline_tf32_ms"),
        ("published", "candidate_default_ms"),
        ("matched", "baseline_tf32_ms"),
        ("matched", "candidate_tf32_ms"),
        ("ieee", "baseline_ieee_ms"),
        ("ieee", "candidate_ieee_ms"),
        ("compile", "baseline_compile_ms"),
        ("compile", "candidate_compile_ms"),
    ],
)
def test_an_arm_without_one_of_its_sides_is_not_measured(arm, missing):
    modes = ("default", "tf32", "ieee", "compile")
    times = {f"{side}_{mode}_ms": 1.0 for side in ("baseline", "candidate") for mode in modes}
    assert metrics.speedup(arm, **times) == 1.0
    assert metrics.speedup(arm, **(times | {missing: None})) is None


def test_unknown_arm_is_an_error():
    with pytest.raises(ValueError, match="'best' is none of naive, published, matched, ieee, compile"):
        metrics.speedup("best", baseline_default_ms=1.0, candidate_default_ms=1.0)


@pytest.mark.parametrize("sides", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (None, 1.0), (1.0, None)])
def test_no_ratio_of_what_is_no_measurement(sides):
    assert metrics.ratio(*sides) is None


def test_geometric_mean_leaves_out_what_is_missing():
    assert metrics.geometric_mean([2.0, None, 8.0]) == pytest.approx(4.0)
    assert metrics.geometric_mean([None, None]) is None
    assert metrics.geometric_mean([]) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_geometric_mean_refuses_what_has_no_logarithm(value):
    with pytest.raises(ValueError, match="positive"):
        metrics.geometric_mean([1.0, value])


def test_correct_speedup_names_its_count():
    value, n = metrics.correct_speedup([0.5, None, 2.0, 8.0])
    assert value == pytest.approx(2.0)
    assert n == 3
    assert metrics.correct_speedup([None]) == (None, 0)


def test_fast_p_is_strict_and_over_all_problems():
    best = [1.0, 1.5, None, 2.0, 0.5]
    assert metrics.fast_p(best, 1.0) == pytest.approx(2 / 5)
    assert metrics.fast_p(best, 0.0) == pytest.approx(4 / 5)
    assert metrics.fast_p(best, 2.0) == 0.0
    assert metrics.fast_p([], 1.0) is None


def test_fast_p_falls_with_p_and_ignores_order():
    rng = random.Random(5)
    best = [rng.choice([None, rng.uniform(0.1, 3.0), 1.0, 1.5]) for _ in range(200)]
    levels = [i / 20 for i in range(61)]
    values = [metrics.fast_p(best, p) for p in levels]
    assert values == sorted(values, reverse=True)
    shuffled = rng.sample(best, len(best))
    assert values == [metrics.fast_p(shuffled, p) for p in levels]
    assert metrics.correct_speedup(shuffled) == metrics.correct_speedup(best)


def test_correctness_counts_unknown_as_not_solved():
    assert metrics.correctness([True, False, None, True]) == 0.5
    assert metrics.correctness([]) is None


def test_memory_metrics():
    ratios = [2.0, 1.0, 0.5, None]
    value, n = metrics.memory_efficiency(ratios)
    assert (value, n) == (pytest.approx(1.0), 3)
    # Strictly less memory on one of four problems, the unmeasured one included.
    assert metrics.memory_efficient(ratios) == 0.25


def _best(samples):
    winner = metrics.best_of(samples, speedup_of=lambda s: s[1], order=lambda s: s[0])
    return None if winner is None else winner[0]


def test_best_of_picks_the_fastest_and_breaks_ties_by_sample():
    assert _best([(0, 1.0), (1, 3.0), (2, 2.0)]) == 1
    assert _best([(3, 2.0), (1, 2.0), (2, 2.0)]) == 1
    assert _best([(2, 2.0), (3, 2.0), (1, 2.0)]) == 1
    assert _best([(0, None), (1, 0.1)]) == 1
    assert _best([(0, None)]) is None
    assert _best([]) is None
