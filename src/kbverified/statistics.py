"""Medians and shares over problems, and how sure they are: seeded bootstraps. Of rounds: round_statistics.py.

Every interval is a percentile bootstrap with the small-sample expansion of Hesterberg (The American
Statistician 69(4), 2015, section "expanded percentile"): with n clusters the plain percentile interval is too narrow
by about sqrt((n-1)/n) and by z/t, which matters at ten of them. Draws depend only on what is measured (the seed is a
hash of it), so the same records always give the same digits.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from kbverified import protocol
from kbverified.round_statistics import Interval, minimum_units

Floats = NDArray[np.float64]


def median(values: Sequence[float]) -> float | None:
    """The median (mean of the two middle values for an even count), None for no values."""
    return float(np.median(np.asarray(values, dtype=np.float64))) if len(values) else None


def seed_from(*parts: object) -> int:
    """A 64-bit seed from the content of the parts: strings, numbers, or nested sequences of them."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def resample_counts(n: int, seed: int, resamples: int = protocol.BOOTSTRAP_RESAMPLES) -> Floats:
    """How often each of n units is drawn in each resample: shape (resamples, n), each row sums to n."""
    if n < 1 or resamples < 1:
        raise ValueError(f"cannot draw {resamples} resamples of {n} units")
    draws = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    flat = (draws + n * np.arange(resamples)[:, None]).ravel()
    counts = np.bincount(flat, minlength=resamples * n).reshape(resamples, n).astype(np.float64)
    counts.flags.writeable = False
    return counts


def percentile_interval(draws: Floats, n: int, confidence: float = protocol.CONFIDENCE) -> Interval | None:
    """Expanded percentile interval of bootstrap draws over n units; undefined draws (NaN) are left out.

    None for fewer than ``minimum_units``: such an interval would claim a confidence that it cannot have.
    """
    defined = draws[~np.isnan(draws)]
    if n < minimum_units(confidence) or defined.size == 0:
        return None
    tail = expanded_tail(n, confidence)
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


@cache
def expanded_tail(n: int, confidence: float = protocol.CONFIDENCE) -> float:
    """One-sided tail probability of the expanded percentile interval for n units: Phi(-sqrt(n/(n-1)) t_{n-1})."""
    t = student_quantile(0.5 + confidence / 2.0, n - 1)
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * t)


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Quantile (probability > 1/2) of Student's t with integer degrees of freedom, by bisection of its CDF."""
    if not 0.5 < probability < 1.0 or degrees < 1:
        raise ValueError(f"no quantile for probability {probability} and {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while _student_central(high, degrees) < 2.0 * probability - 1.0:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if _student_central(middle, degrees) < 2.0 * probability - 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _student_central(t: float, degrees: int) -> float:
    """P(|T| < t) for integer degrees of freedom: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    theta = math.atan(t / math.sqrt(degrees))
    cos2 = math.cos(theta) ** 2
    if degrees % 2:
        term, total = math.cos(theta), 0.0
        for k in range(1, (degrees - 1) // 2 + 1):
            total += term
            term *= cos2 * 2 * k / (2 * k + 1)
        return 2.0 / math.pi * (theta + math.sin(theta) * total)
    term, total = 1.0, 0.0
    for k in range(1, degrees // 2 + 1):
        total += term
        term *= cos2 * (2 * k - 1) / (2 * k)
    return math.sin(theta) * total


def resampled_sums(values: Sequence[float] | Floats, counts: Floats) -> Floats:
    """The sum over n problems in each resample: shape (resamples,), and behind it whatever shape one value has.

    Not ``counts @ values``: the threads that BLAS has for it wait in a loop for longer than the product takes, and on a
    busy machine a paper's ten thousand products take several times as much CPU.
    """
    summed: Floats = np.einsum("ij,j...->i...", counts, np.asarray(values, dtype=np.float64))
    return summed


def share_draws(hits: Sequence[float], counts: Floats) -> Floats:
    """Bootstrap draws of a share over n problems, or of a mean of rates: shape (resamples,)."""
    return resampled_sums(hits, counts) / counts.shape[1]


def geometric_mean_draws(values: Sequence[float | None], counts: Floats) -> Floats:
    """Bootstrap draws of a geometric mean over the problems that have a value; NaN where a resample has none.

    All n problems are resampled, those without a value too: how many have one is itself uncertain.
    """
    present = [float(value is not None) for value in values]
    logs = [0.0 if value is None else math.log(value) for value in values]
    return np.exp(pooled_mean_draws(logs, present, counts))


def pooled_mean_draws(sums: Sequence[float], weights: Sequence[float], counts: Floats) -> Floats:
    """Bootstrap draws of sum(sums) / sum(weights) over n problems; NaN where a resample has no weight.

    ``sums``: of each problem, what it adds up to with its own weight in it.
    """
    total = resampled_sums(weights, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, resampled_sums(sums, counts) / total, np.nan)


def share_interval(hits: Sequence[float], counts: Floats, confidence: float = protocol.CONFIDENCE) -> Interval | None:
    """Interval of a share of problems: bootstrap, but exact where that says nothing. None for no problem.

    Where all or none hit, every resample looks alike and the bootstrap would claim certainty. ``hits`` may be rates,
    a chance from 0 to 1 per problem: there is no exact interval then, and None where there are too few problems or
    all have the same rate.
    """
    n, hit = len(hits), sum(hits)
    if n == 0:
        return None
    counted = all(value in (0, 1) for value in hits)
    if counted and (hit in (0, n) or n < minimum_units(confidence)):
        return exact_share_interval(round(hit), n, confidence)
    if min(hits) == max(hits):
        return None
    return percentile_interval(share_draws(hits, counts), n, confidence)


def clustered_share_interval(
    units: Iterable[tuple[str, bool]],
    confidence: float = protocol.CONFIDENCE,
    resamples: int = protocol.BOOTSTRAP_RESAMPLES,
) -> Interval | None:
    """Interval of the share of units that hit, by bootstrap over their clusters; None for fewer than minimum_units.

    ``units``: (cluster, hit), for example a problem's name for each of its samples: those of one problem are not
    independent. Where all or none hit, every resample looks alike and says nothing: the exact interval then, with each
    cluster as one trial.
    """
    size: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for cluster, hit in units:
        size[cluster] += 1
        good[cluster] += hit
    clusters = sorted(size)
    if len(clusters) < minimum_units(confidence):
        return None
    hits, sizes = (np.array([counter[c] for c in clusters], dtype=np.float64) for counter in (good, size))
    if hits.sum() in (0.0, sizes.sum()):
        return exact_share_interval(len(clusters) if hits.any() else 0, len(clusters), confidence)
    counts = resample_counts(len(clusters), seed_from("clusters", clusters), resamples)
    draws = resampled_sums(hits, counts) / resampled_sums(sizes, counts)
    return percentile_interval(draws, len(clusters), confidence)


def exact_share_interval(hit: int, n: int, confidence: float = protocol.CONFIDENCE) -> Interval:
    """Clopper-Pearson interval of a share: the p at which so many hits, or so few, have probability (1-c)/2."""
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hit == 0 else 1.0 - _share_at_most(n - hit, n, tail)
    high = 1.0 if hit == n else _share_at_most(hit, n, tail)
    return Interval(low, high)


def _share_at_most(hit: int, n: int, probability: float) -> float:
    """The p at which a binomial of n has at most ``hit`` with the given probability, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(100):
        p = (low + high) / 2.0
        if math.fsum(math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(hit + 1)) > probability:
            low = p
        else:
            high = p
    return (low + high) / 2.0


def geometric_mean_interval(
    values: Sequence[float | None], counts: Floats, confidence: float = protocol.CONFIDENCE
) -> Interval | None:
    """Interval of a geometric mean over problems; None where too few of them have a value."""
    present = sum(value is not None for value in values)
    return percentile_interval(geometric_mean_draws(values, counts), present, confidence)
