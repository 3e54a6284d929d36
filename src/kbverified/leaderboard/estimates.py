"""Means and shares with their intervals, all by bootstrap over problems; a value that is null says why."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbverified import metrics, statistics
from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.statistics import Interval


def _rounded(value: float) -> float:
    """Nine significant digits: what is beyond depends on the machine's summation order."""
    return float(f"{value:.9g}")


def estimate_of(value: float | None, interval: Interval | None, n: int, why_null: str | None, few: str) -> Estimate:
    """Value and interval, rounded; ``why_null`` says why there is no value, ``few`` why a value has no interval."""
    if value is None:
        return Estimate(value=None, n=n, why_null=why_null or "not measured")
    if interval is None:
        return Estimate(value=_rounded(value), n=n, why_null=few)
    return Estimate(value=_rounded(value), low=_rounded(interval.low), high=_rounded(interval.high), n=n)


def share_estimate(hits: Sequence[bool], scope: Scope, why_null: str | None, settings: AggregationSettings) -> Estimate:
    """Share of a scope's problems (one entry each) with its interval; null where ``why_null`` says why."""
    if scope.counts is None or why_null:
        return Estimate(value=None, n=len(hits), why_null=why_null or "no active problem")
    interval = statistics.share_interval(hits, scope.counts, settings.confidence)
    return estimate_of(metrics.share(hits), interval, len(hits), None, "no interval")


def rate_estimate(
    rates: Sequence[float], scope: Scope, why_null: str | None, settings: AggregationSettings
) -> Estimate:
    """Mean over a scope's problems of a chance from 0 to 1 each, with its interval; null where ``why_null`` says so."""
    n = len(rates)
    if scope.counts is None or why_null:
        return Estimate(value=None, n=n, why_null=why_null or "no active problem")
    interval = statistics.share_interval(rates, scope.counts, settings.confidence)
    return estimate_of(math.fsum(rates) / n, interval, n, None, f"no interval: {n} problems, too few or all alike")


def clustered_share_estimate(
    units: Sequence[tuple[str, bool]], why_null: str, settings: AggregationSettings
) -> Estimate:
    """Share of (problem, hit) that hit, for what comes several times to a problem; its interval is over problems.

    ``n`` counts units. Null for none, as ``why_null`` says.
    """
    interval = statistics.clustered_share_interval(units, settings.confidence, settings.resamples)
    few = f"no interval: only {len({problem for problem, _ in units})} problems"
    return estimate_of(metrics.share([hit for _, hit in units]), interval, len(units), why_null, few)


def mean_estimate(
    values: Sequence[float | None], scope: Scope, why_null: str | None, settings: AggregationSettings
) -> Estimate:
    """Geometric mean over the problems of a scope (one entry each) that have a value, with its interval."""
    value, n = metrics.correct_speedup(values)
    if scope.counts is None or value is None:
        return Estimate(value=None, n=n, why_null=why_null or "no active problem")
    interval = statistics.geometric_mean_interval(values, scope.counts, settings.confidence)
    return estimate_of(value, interval, n, None, f"no interval: only {n} problems have a value")


def pooled_mean_estimate(
    logs: Sequence[float], weights: Sequence[float], scope: Scope, why_null: str | None, settings: AggregationSettings
) -> Estimate:
    """exp(sum(logs) / sum(weights)) over the problems of a scope (one entry each), with its interval.

    A geometric mean in which a problem weighs what ``weights`` says, and ``logs`` has that weight in it. ``n`` counts
    the problems that weigh anything.
    """
    n, total = sum(weight > 0 for weight in weights), math.fsum(weights)
    if scope.counts is None or why_null or not total:
        return Estimate(value=None, n=n, why_null=why_null or "no active problem")
    value, draws = math.exp(math.fsum(logs) / total), statistics.pooled_mean_draws(logs, weights, scope.counts)
    if n > 1 and np.nanmin(draws) == np.nanmax(draws):
        return estimate_of(value, None, n, None, "no interval: all problems alike")
    interval = statistics.percentile_interval(np.exp(draws), n, settings.confidence)
    return estimate_of(value, interval, n, None, f"no interval: only {n} problems have a value")
