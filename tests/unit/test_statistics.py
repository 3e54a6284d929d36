"""Bootstrap and ranks: draws against the definition, known quantiles, and intervals that cover what they should."""

import math

import numpy as np
import pytest

from kbverified import statistics


def test_median_of_even_and_odd_counts():
    assert statistics.median([3.0, 1.0, 2.0]) == 2.0
    assert statistics.median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert statistics.median([]) is None


@pytest.mark.parametrize(
    # Tables of Student's t, two-sided 95 % and 99 %.
    ("probability", "degrees", "expected"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 9, 2.262), (0.975, 30, 2.042), (0.995, 5, 4.032)],
)
def test_student_quantile_is_that_of_the_tables(probability, degrees, expected):
    assert statistics.student_quantile(probability, degrees) == pytest.approx(expected, abs=6e-4)


def test_expanded_tail_is_below_the_plain_one_and_approaches_it():
    tails = [statistics.expanded_tail(n) for n in (6, 10, 100, 1000)]
    assert tails == sorted(tails)
    assert tails[0] < 0.005 < tails[2] < 0.025
    assert tails[3] == pytest.approx(0.025, abs=2e-4)


def test_fewest_units_for_an_interval():
    # 1 - 2^(1-n) is 0.9375 for 5 and 0.96875 for 6; 0.875 for 4.
    assert statistics.minimum_units(0.95) == 6
    assert statistics.minimum_units(0.90) == 5


def test_resampled_counts_are_draws_with_replacement():
    counts = statistics.resample_counts(7, seed=3, resamples=4000)
    assert counts.shape == (4000, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert (counts == np.round(counts)).all() and (counts >= 0).all()
    # Each unit is drawn once on average, with the variance of a binomial: 7 * 1/7 * 6/7.
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.06)
    assert counts.var() == pytest.approx(6 / 7, abs=0.03)
    assert (counts == statistics.resample_counts(7, seed=3, resamples=4000)).all()
    assert (counts != statistics.resample_counts(7, seed=4, resamples=4000)).any()


def test_nothing_to_draw_from_is_an_error():
    with pytest.raises(ValueError, match="0 units"):
        statistics.resample_counts(0, seed=1)


def test_geometric_mean_draws_follow_the_definition():
    values = [2.0, None, 8.0, 1.0]
    counts = np.array([[1.0, 1, 1, 1], [0, 4, 0, 0], [2, 0, 2, 0], [0, 2, 1, 1]])
    draws = statistics.geometric_mean_draws(values, counts)
    assert draws[0] == pytest.approx(16 ** (1 / 3))
    assert math.isnan(draws[1])
    assert draws[2] == pytest.approx(4.0)
    assert draws[3] == pytest.approx(math.sqrt(8.0))


def test_no_interval_from_five_units_but_one_from_six():
    draws = np.linspace(0.0, 1.0, 1001)
    assert statistics.percentile_interval(draws, 5) is None
    interval = statistics.percentile_interval(draws, 6)
    tail = statistics.expanded_tail(6)
    assert interval == pytest.approx((tail, 1 - tail), abs=1e-9)
    assert statistics.percentile_interval(np.full(10, np.nan), 6) is None


def test_exact_share_interval_is_that_of_the_tables():
    # Clopper-Pearson, 95 %: 0 of 10, 10 of 10, 2 of 10, 1 of 4.
    assert statistics.exact_share_interval(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert statistics.exact_share_interval(10, 10) == pytest.approx((0.6915, 1.0), abs=1e-4)
    assert statistics.exact_share_interval(2, 10) == pytest.approx((0.0252, 0.5561), abs=1e-4)
    assert statistics.exact_share_interval(1, 4) == pytest.approx((0.0063, 0.8059), abs=1e-4)


@pytest.mark.parametrize("hits", [[True] * 20, [False] * 20])
def test_a_share_of_all_or_none_is_not_certain(hits):
    low, high = statistics.share_interval(hits, statistics.resample_counts(20, seed=1))
    assert 0.1 < high - low < 0.2


def test_ranks_are_those_of_the_tables():
    # Wilcoxon's signed ranks, two-sided 5 %: the critical sum plus one. Sign test: one more than the critical count.
    assert [statistics._signed_rank(n, 0.95) for n in (6, 7, 8, 10, 15, 20, 25)] == [1, 3, 4, 9, 26, 53, 90]
    assert [statistics._sign_rank(n, 0.95) for n in (6, 9, 12, 20)] == [1, 2, 3, 6]
    # The normal approximation, whose tail is a little heavier.
    assert statistics._signed_rank(100, 0.95) == pytest.approx(2525 - 1.96 * math.sqrt(100 * 101 * 201 / 24), abs=2)


def test_rounds_with_different_numbers_of_sides_are_refused():
    with pytest.raises(ValueError, match="2 baseline rounds"):
        statistics.paired_ratio([[1.0], [1.0]], [[1.0]])


def test_what_disturbs_both_sides_of_a_round_cancels_only_when_paired():
    rng = np.random.default_rng(2)
    drift = np.exp(rng.normal(0, 0.1, 10))
    baseline = [[2.0 * d] * 3 for d in drift]
    candidate = [[1.0 * d] * 3 for d in drift]
    paired = statistics.paired_ratio(baseline, candidate)
    unpaired = statistics.unpaired_ratio(baseline, candidate)
    assert paired.value == pytest.approx(2.0) and paired.interval == pytest.approx((2.0, 2.0))
    assert unpaired.interval.low < 1.9 and unpaired.interval.high > 2.1


def test_repetitions_inside_a_round_are_not_independent_evidence():
    rng = np.random.default_rng(3)
    levels = np.exp(rng.normal(0, 0.05, 10))
    few = statistics.paired_ratio([[x] * 2 for x in levels], [[1.0] * 2] * 10)
    many = statistics.paired_ratio([[x] * 20 for x in levels], [[1.0] * 20] * 10)
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
        paired.append(statistics.paired_ratio(baseline, candidate).value)
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
        found = statistics.paired_ratio(baseline, candidate), statistics.unpaired_ratio(baseline, other)
        found = [*found, statistics.paired_ratio(*swinging(rng, rounds, 2.0))]
        hits = [hit + (low <= 2.0 <= high) for hit, (_, (low, high)) in zip(hits, found)]
    # 95 % of 200 with a standard deviation of 3.
    assert min(hits) >= 181, hits


def test_a_time_has_an_interval_from_six_rounds():
    rounds = [[3.0, 1.0, 2.0], [5.0], [4.0], [7.0], [6.0], [8.0]]
    assert statistics.time_of(rounds[:5]) == (5.0, None)
    assert statistics.time_of(rounds) == (5.5, (2.0, 8.0))
    assert (
        statistics.time_of([]) == statistics.paired_ratio([], []) == statistics.unpaired_ratio([], []) == (None, None)
    )


def test_variance_between_processes_adds_in_quadrature():
    narrow = statistics.Estimated(2.0, statistics.Interval(1.98, 2.02))
    assert statistics.with_variance_between(narrow, None) == statistics.with_variance_between(narrow, 0.0) == narrow
    value, interval = statistics.with_variance_between(narrow, 0.02)
    assert value == 2.0
    expected = math.hypot(math.log(2.02 / 2.0), 1.959964 * 0.02)
    assert math.log(interval.high / 2.0) == pytest.approx(expected, rel=1e-6)
    assert interval.low < 1.98 < 2.02 < interval.high


def test_problem_intervals_cover_their_truth():
    rng = np.random.default_rng(5)
    means = shares = 0
    for trial in range(200):
        values = [float(np.exp(rng.normal(-0.2, 0.8))) if rng.random() < 0.8 else None for _ in range(60)]
        counts = statistics.resample_counts(60, seed=trial, resamples=500)
        low, high = statistics.geometric_mean_interval(values, counts)
        means += low <= math.exp(-0.2) <= high
        low, high = statistics.share_interval([v is not None for v in values], counts)
        shares += low <= 0.8 <= high
    assert 180 <= means <= 199
    assert 180 <= shares <= 199


def test_seed_depends_on_content_alone():
    assert statistics.seed_from("a", [(1.0, 2.0)]) == statistics.seed_from("a", [(1.0, 2.0)])
    assert statistics.seed_from("a", [(1.0, 2.0)]) != statistics.seed_from("b", [(1.0, 2.0)])
    assert statistics.seed_from("a", [(1.0, 2.0)]) != statistics.seed_from("a", [(1.0,), (2.0,)])
