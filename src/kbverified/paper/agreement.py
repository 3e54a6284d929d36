"""How far two LLM judges agree beyond chance: Cohen's kappa with a bootstrap interval over problems.

Only what judges of the panel said is compared: substitutes are asked where others disagree, which is no sample of
anything. Failures are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbverified import statistics
from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.estimates import clustered_share_estimate, estimate_of
from kbverified.leaderboard.model import Estimate
from kbverified.llm_judges.labels import HACKS, LABELS
from kbverified.llm_judges.records import Labelled

Pair = tuple[str, str]
"""What one judge and another said of one candidate."""


@dataclass(frozen=True)
class Agreement:
    """Two judges on the candidates that both labelled."""

    first: str
    second: str
    n: int
    n_without: int
    """Candidates that both were asked about, and one gave no label."""
    agreed: Estimate
    """Share of candidates with one and the same label."""
    kappa: Estimate
    """Over the five labels."""
    kappa_hack: Estimate
    """Over hack, legitimate and uncertain."""


def kappa(pairs: Sequence[Pair]) -> float | None:
    """Cohen's kappa, (p_o - p_e) / (1 - p_e): observed agreement, and that of two who answer at random as often as
    these do (J. Cohen, Educational and Psychological Measurement 20(1), 1960, p. 37-46, formula 1).

    None for no pair, and where both gave one and the same label throughout: nothing is left to agree on then.
    """
    if not pairs:
        return None
    value = float(_kappas(_tables([("", *pair) for pair in pairs])[1].sum(axis=0, keepdims=True))[0])
    return None if np.isnan(value) else value


def _tables(units: Iterable[tuple[str, str, str]]) -> tuple[list[str], NDArray[np.float64]]:
    """Clusters, and the table of counts of each: shape (clusters, labels, labels). Units: cluster, two labels."""
    units = list(units)
    clusters = sorted({cluster for cluster, _, _ in units})
    labels = sorted({label for unit in units for label in unit[1:]})
    counts = np.zeros((len(clusters), len(labels), len(labels)))
    row, column = {c: i for i, c in enumerate(clusters)}, {label: i for i, label in enumerate(labels)}
    for cluster, a, b in units:
        counts[row[cluster], column[a], column[b]] += 1
    return clusters, counts


def _kappas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kappa of each table of counts, shape (n, labels, labels) -> (n,); NaN where it is not defined."""
    n = tables.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.trace(tables, axis1=1, axis2=2) / n
        expected = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1) / n**2
        return np.where(expected < 1.0 - 1e-12, (observed - expected) / (1.0 - expected), np.nan)


def kappa_estimate(units: Sequence[tuple[str, str, str]], settings: AggregationSettings) -> Estimate:
    """Kappa with its interval by bootstrap over problems: candidates of one problem are not independent.

    ``units``: problem, and what the two judges said. A resample in which it is not defined is left out.
    """
    value = kappa([(a, b) for _, a, b in units])
    if value is None:
        why = "both judges gave one and the same label throughout" if units else "no candidate has a label by both"
        return Estimate(value=None, n=len(units), why_null=why)
    if all(a == b for _, a, b in units):
        return estimate_of(value, None, len(units), None, "no interval: they agree throughout, as every resample does")
    clusters, tables = _tables(units)
    counts = statistics.resample_counts(len(clusters), statistics.seed_from("kappa", clusters), settings.resamples)
    drawn = statistics.resampled_sums(tables, counts)
    interval = statistics.percentile_interval(_kappas(drawn), len(clusters), settings.confidence)
    return estimate_of(value, interval, len(units), None, f"no interval: only {len(clusters)} problems")


def agreements(labelled: Iterable[Labelled], judges: Iterable[str], settings: AggregationSettings) -> list[Agreement]:
    """Every two judges that were asked about the same candidates, in the order of the judges."""
    asked = [(one.problem, {v.judge: v.label for v in one.votes if v.role == "panel"}) for one in labelled]
    found = []
    for first, second in combinations(judges, 2):
        both = [(problem, said[first], said[second]) for problem, said in asked if first in said and second in said]
        if not both:
            continue
        units = [(problem, a, b) for problem, a, b in both if a is not None and b is not None]
        broad = [(problem, _broad(a), _broad(b)) for problem, a, b in units]
        same = [(problem, a == b) for problem, a, b in units]
        found.append(
            Agreement(
                first=first,
                second=second,
                n=len(units),
                n_without=len(both) - len(units),
                agreed=clustered_share_estimate(same, "no candidate has a label by both", settings),
                kappa=kappa_estimate(units, settings),
                kappa_hack=kappa_estimate(broad, settings),
            )
        )
    return found


def _broad(label: str) -> str:
    assert label in LABELS
    return "hack" if label in HACKS else label
