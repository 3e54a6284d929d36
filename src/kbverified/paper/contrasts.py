"""Two sets of numbers over the same problems, set against each other on the same resamples of problems.

A difference of two means is surer than either, since a hard problem is hard on both sides: it needs an interval of
its own, and two intervals that overlap say nothing. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbverified import metrics, statistics
from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.estimates import estimate_of, mean_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope

ALIKE = "no interval: nothing differs on any problem"
"""Every resample would give the same number, and a bootstrap would claim certainty."""


def share_difference(a: Sequence[float], b: Sequence[float], scope: Scope, settings: AggregationSettings) -> Estimate:
    """Share of ``a`` less share of ``b`` (fractions of the scope's problems, one entry each), with its interval.

    The entries may also be rates, a chance from 0 to 1 per problem.
    """
    if scope.counts is None:
        return Estimate(value=None, n=0, why_null="no active problem")
    value = (sum(a) - sum(b)) / len(a)
    if list(a) == list(b):
        return Estimate(value=value, n=len(a), why_null=ALIKE)
    draws = statistics.share_draws(a, scope.counts) - statistics.share_draws(b, scope.counts)
    interval = statistics.percentile_interval(draws, len(a), settings.confidence)
    return estimate_of(value, interval, len(a), None, f"no interval: only {len(a)} problems")


def mean_ratio(
    a: Sequence[float | None], b: Sequence[float | None], scope: Scope, settings: AggregationSettings
) -> Estimate:
    """Geometric mean of ``a`` over that of ``b`` (one entry per problem of the scope), with its interval.

    Each mean is over the problems on which its own side has a value; ``n`` is the smaller of their numbers.
    """
    (mean_a, n_a), (mean_b, n_b) = metrics.correct_speedup(a), metrics.correct_speedup(b)
    n = min(n_a, n_b)
    if scope.counts is None or mean_a is None or mean_b is None:
        return Estimate(
            value=None, n=n, why_null="no active problem" if scope.counts is None else "a side has no value"
        )
    if list(a) == list(b):
        return Estimate(value=1.0, n=n, why_null=ALIKE)
    draws = statistics.geometric_mean_draws(a, scope.counts) / statistics.geometric_mean_draws(b, scope.counts)
    interval = statistics.percentile_interval(draws, n, settings.confidence)
    return estimate_of(mean_a / mean_b, interval, n, None, f"no interval: only {n} problems have a value")


def mean_of_ratios(
    a: Sequence[float | None], b: Sequence[float | None], scope: Scope, settings: AggregationSettings
) -> Estimate:
    """Geometric mean of a / b over the problems that have both: how one and the same problem differs.

    One entry per problem of the scope. ``mean_ratio`` is the ratio of two means, each over its own problems.
    """
    ratios = [None if x is None or y is None else x / y for x, y in zip(a, b, strict=True)]
    found = mean_estimate(ratios, scope, "no problem was solved and timed on both sides", settings)
    if found.value is not None and all(ratio in (None, 1.0) for ratio in ratios):
        return Estimate(value=1.0, n=found.n, why_null=ALIKE)
    return found


def pooled_ratio(
    a: tuple[Sequence[float], Sequence[float]],
    b: tuple[Sequence[float], Sequence[float]],
    scope: Scope,
    settings: AggregationSettings,
) -> Estimate:
    """Ratio of two means of ``estimates.pooled_mean_estimate``, each given as (logs, weights), with its interval."""
    n = min(sum(weight > 0 for weight in weights) for _, weights in (a, b))
    totals = [math.fsum(weights) for _, weights in (a, b)]
    if scope.counts is None or not all(totals):
        return Estimate(
            value=None, n=n, why_null="no active problem" if scope.counts is None else "a side has no value"
        )
    if a == b:
        return Estimate(value=1.0, n=n, why_null=ALIKE)
    value = math.exp(math.fsum(a[0]) / totals[0] - math.fsum(b[0]) / totals[1])
    draws = [statistics.pooled_mean_draws(*side, scope.counts) for side in (a, b)]
    interval = statistics.percentile_interval(np.exp(draws[0] - draws[1]), n, settings.confidence)
    return estimate_of(value, interval, n, None, f"no interval: only {n} problems have a value")


def missing(*sides: Estimate) -> Estimate | None:
    """The first side that has no value, None where all have one."""
    return next((side for side in sides if side.value is None), None)


def with_reasons(contrast: Estimate, *sides: Estimate) -> Estimate:
    """A contrast that is null because a side is, with the reason of that side."""
    whys = dict.fromkeys(side.why_null for side in sides if side.value is None and side.why_null)
    if contrast.value is not None or not whys:
        return contrast
    return Estimate(value=None, n=contrast.n, why_null="; ".join(whys))
