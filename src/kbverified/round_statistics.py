"""From the rounds of a timing record to a time or a ratio with its interval, by ranks: no draws, no distribution.

What counts as one is a whole round. Repetitions inside it share clocks, temperature and neighbours; counting them
singly would take them for independent evidence. The judge plans with this how many rounds there will be, and
aggregation says with it what they showed. Torch-free, pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbverified import protocol

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A two-sided interval, both ends in the unit of the estimate."""

    low: float
    high: float


@cache
def minimum_units(confidence: float = protocol.CONFIDENCE) -> int:
    """The fewest units from which a bootstrap, or ranks, can give an interval of this confidence: 6 for 95 %.

    No resample leaves the range of the n values, and that range misses the median of their distribution with
    probability 2^(1-n).
    """
    return math.ceil(1.0 - math.log2(1.0 - confidence))


Rounds = Sequence[Sequence[float]]
"""One side's repetitions in ms, round by round."""


class Estimated(NamedTuple):
    """A value and its interval; each None where there are too few rounds for it."""

    value: float | None
    interval: Interval | None


def round_medians(rounds: Rounds) -> Floats:
    """Median of each round's repetitions, shape (rounds,)."""
    return np.array([float(np.median(np.asarray(repetitions, dtype=np.float64))) for repetitions in rounds])


def time_of(rounds: Rounds, confidence: float = protocol.CONFIDENCE) -> Estimated:
    """One side's time (ms): the median of its rounds' medians, and the distribution-free interval of a median.

    The interval's ends are order statistics (sign test); spells of another speed make no symmetric distribution.
    """
    found = np.sort(round_medians(rounds))
    n = found.size
    if n == 0:
        return Estimated(None, None)
    value = float(np.median(found))
    if n < minimum_units(confidence):
        return Estimated(value, None)
    rank = _sign_rank(n, confidence)
    return Estimated(value, Interval(float(found[rank - 1]), float(found[n - rank])))


def paired_ratio(baseline: Rounds, candidate: Rounds, confidence: float = protocol.CONFIDENCE) -> Estimated:
    """Baseline / candidate timed in the same rounds: Hodges and Lehmann's centre of the rounds' log ratios.

    Each round gives one log ratio of medians, in which what meets both sides cancels. Their centre is the median of all
    pairwise means (Walsh averages; Hodges and Lehmann, Ann. Math. Stat. 34(2), 1963): nearly a mean's efficiency for
    plain noise, and unmoved by rounds that met two different speeds of the device. The interval's ends are the Walsh
    averages that Wilcoxon's signed-rank test does not reject: exact for independent rounds of a symmetric distribution,
    which a ratio of two like sides has. Raises ValueError where the sides have different numbers of rounds.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} baseline rounds cannot be paired with {len(candidate)} candidate rounds")
    n = len(baseline)
    if n == 0:
        return Estimated(None, None)
    logs = np.log(round_medians(baseline) / round_medians(candidate))
    walsh = np.sort((logs[:, None] + logs[None, :])[np.triu_indices(n)] / 2.0)
    return _exponential(walsh, _signed_rank(n, confidence) if n >= minimum_units(confidence) else None)


def unpaired_ratio(baseline: Rounds, candidate: Rounds, confidence: float = protocol.CONFIDENCE) -> Estimated:
    """Baseline of one job / candidate of another: the two-sample estimate of Hodges and Lehmann over log times.

    The median of all pairwise differences; the interval's ends are those that the rank-sum test (normal approximation)
    does not reject. It holds no variance between jobs: a single pair of jobs has no evidence of it.
    """
    n, m = len(baseline), len(candidate)
    if min(n, m) == 0:
        return Estimated(None, None)
    logs = np.log(round_medians(baseline))[:, None] - np.log(round_medians(candidate))[None, :]
    rank = _rank_sum(n, m, confidence) if min(n, m) >= minimum_units(confidence) else None
    return _exponential(np.sort(logs.ravel()), rank)


def with_variance_between(estimate: Estimated, sd: float | None, confidence: float = protocol.CONFIDENCE) -> Estimated:
    """The estimate with a relative standard deviation between processes added to its interval, in quadrature of logs.

    ``sd`` None or 0: as it was.
    """
    if not sd or estimate.value is None or estimate.interval is None:
        return estimate
    between = NormalDist().inv_cdf(0.5 + confidence / 2.0) * sd
    below = math.hypot(math.log(estimate.value / estimate.interval.low), between)
    above = math.hypot(math.log(estimate.interval.high / estimate.value), between)
    return Estimated(estimate.value, Interval(estimate.value * math.exp(-below), estimate.value * math.exp(above)))


def _exponential(ordered_logs: Floats, rank: int | None) -> Estimated:
    value = math.exp(float(np.median(ordered_logs)))
    if rank is None:
        return Estimated(value, None)
    low, high = ordered_logs[rank - 1], ordered_logs[ordered_logs.size - rank]
    return Estimated(value, Interval(math.exp(float(low)), math.exp(float(high))))


@cache
def _sign_rank(n: int, confidence: float) -> int:
    """The order statistic at which a median's interval begins: P(Binomial(n, 1/2) < rank) <= (1 - confidence) / 2."""
    tail, rank = 0.0, 0
    while (tail := tail + math.comb(n, rank) * 0.5**n) <= (1.0 - confidence) / 2.0:
        rank += 1
    return max(rank, 1)


@cache
def _signed_rank(n: int, confidence: float) -> int:
    """The same among the n (n+1) / 2 Walsh averages, by the exact distribution of the signed-rank statistic."""
    distribution = np.ones(1)
    for rank in range(1, n + 1):
        distribution = np.convolve(distribution, np.concatenate([[0.5], np.zeros(rank - 1), [0.5]]))
    return max(int(np.searchsorted(np.cumsum(distribution), (1.0 - confidence) / 2.0, side="right")), 1)


def _rank_sum(n: int, m: int, confidence: float) -> int:
    """The same among n m differences, by the normal approximation of the rank-sum statistic."""
    spread = math.sqrt(n * m * (n + m + 1) / 12.0)
    return max(math.floor(n * m / 2.0 - NormalDist().inv_cdf(0.5 + confidence / 2.0) * spread), 1)
