"""Times and ratios out of rounds: ranks of the tables, coverage, and what two speeds of a device do to them."""

import math

import numpy as np
import pytest

from kbverified import round_statistics


def test_ranks_are_those_of_the_tables():
    # Wilcoxon's signed ranks, two-sided 5 %: the critical sum plus one. Sign test: one more than the critical count.
    assert [round_statistics._signed_rank(n, 0.95) for n in (6, 7, 8, 10, 15, 20, 25)] == [1, 3, 4, 9, 26, 53, 90]
    assert [round_statistics._sign_rank(n, 0.95) for n in (6, 9, 12, 20)] == [1, 2, 3, 6]
    # The normal approximation, whose tail is a little heavier.
    assert round_statistics._signed_rank(100, 0.95) == pytest.approx(
        2525 - 1.96 * math.sqrt(100 * 101 * 201 / 24), abs=2
    )


def test_rounds_with_different_numbers_of_sides_are_refused():
    with pytest.raises(ValueError, match="2 baseline rounds"):
        round_statistics.paired_ratio([[1.0], [1.0]], [[1.0]])


def test_what_disturbs_both_sides_of_a_round_cancels_only_when_paired():
    rng = np.random.default_rng(2)
    drift = np.exp(rng.normal(0, 0.1, 10))
    baseline = [[2.0 * d] * 3 for d in drift]
    candidate = [[1.0 * d] * 3 for d in drift]
    paired = round_statistics.paired_ratio(baseline, candidate)
    unpaired = round_statistics.unpaired_ratio(baseline, candidate)
    assert paired.value == pytest.approx(2.0) and paired.interval == pytest.approx((2.0, 2.0))
    assert unpaired.interval.low < 1.9 and unpaired.interval.high > 2.1


def test_repetitions_inside_a_round_are_not_independent_evidence():
    rng = np.random.default_rng(3)
    levels = np.exp(rng.normal(0, 0.05, 10))
    few = round_statistics.paired_ratio([[x] * 2 for x in levels], [[1.0] * 2] * 10)
    many = round_statistics.paired_ratio([[x] * 20 for x in levels], [[1.0] * 20] * 10)
    widths = [found.interval.high - found.interval.low for found in (few, many)]
    # Ten times the repetitions of the same ten rounds know no more; counted singly they would by sqrt(10).
    assert widths[1] > 0.7 * widths[0] > 0.05


def swinging(rng, rounds, ratio):
    """Both sides of rounds that each meet one of two speeds of a device, as an H200's TF32 matmul does."""
    sides = []
    for scale in (ratio, 1.0):
        level = np.where(rng.random(rounds) < 0.5, 0.385, 0.44)
        sides.append([list(scale * at * np.exp(rng.normal(0, 0.02, 8))) for at in level])
    return sides


def test_two_speeds_of_a_device_do_not_move_a_paired_ratio_as_they_move_pooled_medians():
    rng = np.random.default_rng(6)
    paired, pooled = [], []
    for _ in range(60):
        baseline, candidate = swinging(rng, 60, 1.0)
        paired.append(round_statistics.paired_ratio(baseline, candidate).value)
        pooled.append(np.median(np.concatenate(baseline)) / np.median(np.concatenate(candidate)))
    assert np.std(paired) < 0.5 * np.std(pooled)
    assert np.quantile(np.abs(np.log(paired)), 0.9) < 0.02


@pytest.mark.parametrize(("rounds", "noise"), [(10, 0.01), (30, 0.05)])
def test_round_interval_covers_the_true_ratio(rounds, noise):
    rng = np.random.default_rng(4)
    hits = [0, 0, 0]
    for _ in range(200):
        shared = rng.normal(0, 0.02, rounds)
        baseline = [list(2.0 * np.exp(s + rng.normal(0, noise) + rng.normal(0, 0.01, 8))) for s in shared]
        candidate = [list(np.exp(s + rng.normal(0, noise) + rng.normal(0, 0.01, 8))) for s in shared]
        other = [list(np.exp(rng.normal(0, noise) + rng.normal(0, 0.02, 8))) for _ in shared]
        found = round_statistics.paired_ratio(baseline, candidate), round_statistics.unpaired_ratio(baseline, other)
        found = [*found, round_statistics.paired_ratio(*swinging(rng, rounds, 2.0))]
        hits = [hit + (low <= 2.0 <= high) for hit, (_, (low, high)) in zip(hits, found)]
    # 95 % of 200 with a standard deviation of 3.
    assert min(hits) >= 181, hits


def test_a_time_has_an_interval_from_six_rounds():
    rounds = [[3.0, 1.0, 2.0], [5.0], [4.0], [7.0], [6.0], [8.0]]
    assert round_statistics.time_of(rounds[:5]) == (5.0, None)
    assert round_statistics.time_of(rounds) == (5.5, (2.0, 8.0))
    assert (
        round_statistics.time_of([])
        == round_statistics.paired_ratio([], [])
        == round_statistics.unpaired_ratio([], [])
        == (None, None)
    )


def test_variance_between_processes_adds_in_quadrature():
    narrow = round_statistics.Estimated(2.0, round_statistics.Interval(1.98, 2.02))
    assert (
        round_statistics.with_variance_between(narrow, None)
        == round_statistics.with_variance_between(narrow, 0.0)
        == narrow
    )
    value, interval = round_statistics.with_variance_between(narrow, 0.02)
    assert value == 2.0
    expected = math.hypot(math.log(2.02 / 2.0), 1.959964 * 0.02)
    assert math.log(interval.high / 2.0) == pytest.approx(expected, rel=1e-6)
    assert interval.low < 1.98 < 2.02 < interval.high
