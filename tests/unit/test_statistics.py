"""Bootstrap: draws against the definition, known quantiles, and intervals that cover what they should."""

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


def test_a_cluster_is_one_unit_however_many_it_holds():
    """Eight clusters, two of which hit: the interval is that of 2 of 8, whether each holds one unit or fifty."""
    single = [(f"c{i}", i < 2) for i in range(8)]
    one = statistics.clustered_share_interval(single)
    # Binomial(8, 1/4) is at most 5 of 8 with 99.6 %, at most 3 with 88.6 %, and 0 with 10 %.
    assert one.low == 0.0 and 4 / 8 <= one.high <= 6 / 8
    many = statistics.clustered_share_interval([unit for unit in single for _ in range(50)])
    assert many == pytest.approx(one)


def test_clusters_of_which_all_or_none_hit_get_the_exact_interval():
    for hit, expected in ((True, (0.025 ** (1 / 6), 1.0)), (False, (0.0, 1 - 0.025 ** (1 / 6)))):
        units = [(f"c{i % 6}", hit) for i in range(60)]
        assert statistics.clustered_share_interval(units) == pytest.approx(expected)
    assert statistics.clustered_share_interval([("a", True), ("b", False)]) is None
    assert statistics.clustered_share_interval([]) is None


def test_the_interval_of_rates_is_the_bootstrap_of_their_mean():
    rates = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.4, 0.6]
    counts = statistics.resample_counts(8, seed=1, resamples=500)
    draws = np.sort(counts @ rates / 8)
    found = statistics.share_interval(rates, counts)
    assert found == statistics.percentile_interval(draws, 8)
    assert draws[0] <= found.low < 0.5 < found.high <= draws[-1]
    assert statistics.share_interval([0.4] * 8, counts) is None, "all alike: nothing can be resampled"
    assert statistics.share_interval([0.4, 0.6], counts[:, :2]) is None, "no exact interval of rates"
    assert statistics.share_interval([1.0, 0.0], counts[:, :2]) == statistics.exact_share_interval(1, 2)
    assert statistics.share_interval([1.0] * 8, counts) == statistics.exact_share_interval(8, 8)


def test_pooled_means_weigh_each_problem_and_leave_out_resamples_of_no_weight():
    counts = np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
    # Sums have their weight in them: means 4, 2, none.
    draws = statistics.pooled_mean_draws([2.0, 2.0, 0.0], [0.5, 1.0, 0.0], counts)
    assert draws[[0, 1, 3]] == pytest.approx([4 / 1.5, 4.0, 2.0])
    assert math.isnan(draws[2])


def test_resampling_problems_alone_has_the_variance_of_problems_and_samples():
    # Why best-of-k intervals do not resample samples too (docs/decisions/0025-best-of-n.md): 60 problems of different
    # difficulty, four samples each, pass@2 of each problem, over and over. Its spread is what the bootstrap says.
    rng = np.random.default_rng(7)
    means, spreads = [], []
    for _ in range(400):
        passing = rng.binomial(4, rng.beta(0.8, 0.8, size=60))
        rates = 1 - (4 - passing) * (3 - passing) / 12
        means.append(rates.mean())
        spreads.append(rates.std() / math.sqrt(60))  # what resampling problems converges to
    assert np.mean(spreads) == pytest.approx(np.std(means), rel=0.1)
    counts = statistics.resample_counts(60, seed=2)
    assert statistics.share_draws(list(rates), counts).std() == pytest.approx(spreads[-1], rel=0.1)
