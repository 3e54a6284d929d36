"""Differences and ratios over the same problems, by hand and against a bootstrap written out here."""

import math

import numpy as np
import pytest

from kbverified import statistics
from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.scopes import Scope
from kbverified.paper.contrasts import ALIKE, mean_ratio, pooled_ratio, share_difference

SETTINGS = AggregationSettings(resamples=1000)


def scope(n, seed=3):
    names = tuple(f"level1_{i}" for i in range(n))
    return Scope("kb", 1, names, statistics.resample_counts(n, seed, 1000) if n else None)


def test_a_difference_of_shares_by_hand():
    found = share_difference([True] * 5 + [False] * 5, [True] * 2 + [False] * 8, scope(10), SETTINGS)
    assert found.value == pytest.approx(0.3)
    assert found.n == 10
    assert found.low < 0.3 < found.high


def test_the_interval_of_a_difference_is_paired():
    """Both shares vary together from resample to resample; independent ones would vary more."""
    a, b = [True] * 20 + [False] * 20, [True] * 19 + [False] * 21
    found = share_difference(a, b, scope(40), SETTINGS)
    draws = [np.mean(np.subtract(a, b, dtype=float)[i]) for i in np.random.default_rng(0).integers(0, 40, (4000, 40))]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.03)
    assert found.high - found.low < 0.15  # independent: 2 * 1.96 * sqrt(2 * 0.25 / 40) = 0.44


def test_a_ratio_of_means_by_hand_where_one_side_has_fewer_problems():
    a = [4.0, 1.0, None, 2.0, 8.0, 2.0, 4.0]  # 2^(2+0+1+3+1+2)/6 = 2^1.5
    b = [1.0, 1.0, 16.0, 1.0, 1.0, 2.0, 4.0]  # 2^(4+1+2)/7 = 2
    found = mean_ratio(a, b, scope(7), SETTINGS)
    assert found.value == pytest.approx(2**0.5)
    assert found.n == 6
    assert found.low < found.value < found.high


def test_the_interval_of_a_ratio_is_paired():
    b = [2.0**i for i in range(-10, 10)]
    a = [2 * value * (1.01 if i % 2 else 0.99) for i, value in enumerate(b)]
    found = mean_ratio(a, b, scope(20), SETTINGS)
    half = 2.1 * math.log(1.01 / 0.99) / 2 / math.sqrt(20)  # each log ratio is log 2 give or take about 0.01
    assert found.low == pytest.approx(2 * math.exp(-half), rel=0.003)
    assert found.high == pytest.approx(2 * math.exp(half), rel=0.003)


def test_nothing_differs_is_no_certainty():
    same = share_difference([True, False] * 5, [True, False] * 5, scope(10), SETTINGS)
    assert (same.value, same.low, same.why_null) == (0.0, None, ALIKE)
    ratio = mean_ratio([1.0, 3.0, None] * 3, [1.0, 3.0, None] * 3, scope(9), SETTINGS)
    assert (ratio.value, ratio.low, ratio.n, ratio.why_null) == (1.0, None, 6, ALIKE)


def test_too_little_to_say():
    assert share_difference([], [], scope(0), SETTINGS).value is None
    assert share_difference([True], [False], scope(1), SETTINGS).low is None
    assert mean_ratio([None, None], [1.0, 2.0], scope(2), SETTINGS).why_null == "a side has no value"
    few = mean_ratio([2.0, 4.0, None], [1.0, 1.0, 1.0], scope(3), SETTINGS)
    assert few.value == pytest.approx(8**0.5) and few.low is None and "only 2 problems" in few.why_null


def test_a_ratio_of_pooled_means_is_taken_over_the_same_resamples():
    # Problem by problem b is half of a, with half its weight; the last one is solved on one side only.
    logs = [math.log(v) for v in (2.0, 3.0, 5.0, 0.5, 1.5, 4.0)]
    a = [*logs, math.log(2.0)], [1.0] * 7
    b = [0.5 * (log - math.log(2.0)) for log in logs] + [0.0], [0.5] * 6 + [0.0]
    found = pooled_ratio(a, b, scope(7), SETTINGS)
    mean_a = sum([*logs, math.log(2.0)]) / 7
    mean_b = sum(logs) / 6 - math.log(2.0)
    assert found.value == pytest.approx(math.exp(mean_a - mean_b))
    assert found.n == 6 and found.low < found.value < found.high
    same = pooled_ratio(a, a, scope(7), SETTINGS)
    assert (same.value, same.low, same.why_null) == (1.0, None, ALIKE)
    none = pooled_ratio(a, ([0.0] * 7, [0.0] * 7), scope(7), SETTINGS)
    assert (none.value, none.n, none.why_null) == (None, 0, "a side has no value")
