"""Best of k out of n samples: exact expectations over all C(n, k) subsets of k, drawn without replacement.

Nothing is simulated. Of one problem's n samples some compete: they are right, and have the figure by which they are
ranked. In a subset the highest of its competitors wins; the others never do. For k > n there is no unbiased estimate
from n samples, and these functions raise rather than extrapolate (docs/decisions/0025-best-of-n.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def pass_at_k(n: int, passing: int, k: int) -> float:
    """Chance that a subset of k of n samples holds one of the passing ones: 1 - C(n - passing, k) / C(n, k).

    Chen et al., "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), equation 1; unbiased for what k
    new samples of the same source would give. Raises ValueError unless 1 <= k <= n and 0 <= passing <= n.
    """
    _check(n, passing, k)
    subsets = math.comb(n, k)
    return (subsets - math.comb(n - passing, k)) / subsets


def winning_subsets(n: int, competitors: int, k: int) -> list[int]:
    """Of each competitor, lowest first: in how many of the C(n, k) subsets of k of n samples it is the highest one.

    The j-th lowest (from 1) wins where it is drawn and the other k - 1 are among the j - 1 below it and the samples
    that do not compete: C(n - competitors + j - 1, k - 1). That is the distribution of the largest order statistic, so
    that means with these weights are U-statistics (Hoeffding 1948), unbiased for the expected best of k; Dodge et al.
    (arXiv 2110.00613) compare it with the ones that draw with replacement. Raises ValueError as pass_at_k.
    """
    _check(n, competitors, k)
    never = n - competitors
    return [math.comb(never + below, k - 1) for below in range(competitors)]


def chance_that_best(hits: Sequence[bool], n: int, k: int) -> float:
    """Chance that a subset of k of n samples has a competitor and the highest of them is a hit.

    ``hits``: one entry per competitor, the lowest first. Raises ValueError as pass_at_k.
    """
    wins = winning_subsets(n, len(hits), k)
    return sum(subsets for subsets, hit in zip(wins, hits, strict=True) if hit) / math.comb(n, k)


def expected_best(values: Sequence[float], n: int, k: int) -> float:
    """Sum over subsets of k of n samples of the best competitor's value, over the number of subsets.

    ``values``: one per competitor, the lowest-ranked first; usually what they are ranked by. A subset without a
    competitor adds 0, which is no value of its own: divide by pass_at_k for the mean over the subsets that have one.
    Raises ValueError as pass_at_k.
    """
    wins, subsets = winning_subsets(n, len(values), k), math.comb(n, k)
    return math.fsum(won / subsets * value for won, value in zip(wins, values, strict=True))


def _check(n: int, competitors: int, k: int) -> None:
    if not 0 <= competitors <= n:
        raise ValueError(f"{competitors} of {n} samples cannot compete")
    if not 1 <= k <= n:
        raise ValueError(f"best of {k} cannot be estimated from {n} samples: k has to be from 1 to {n}")
