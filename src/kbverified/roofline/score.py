"""The mean SOL-like score over problems, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from kbverified import protocol, statistics
from kbverified.statistics import Floats, Interval


def mean_interval(
    values: Sequence[float | None], counts: Floats, confidence: float = protocol.CONFIDENCE
) -> Interval | None:
    """Bootstrap interval of an arithmetic mean over problems; None where too few of them have a value.

    ``counts`` has shape (resamples, problems). Problems without a value are resampled too, as for geometric means.
    """
    present = [float(value is not None) for value in values]
    filled = [0.0 if value is None else value for value in values]
    draws = statistics.pooled_mean_draws(filled, present, counts)
    return statistics.percentile_interval(draws, int(sum(present)), confidence)
