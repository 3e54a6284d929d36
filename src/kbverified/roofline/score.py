"""The mean SOL-like score over problems, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbverified import protocol, statistics
from kbverified.statistics import Floats, Interval


def mean_interval(
    values: Sequence[float | None], counts: Floats, confidence: float = protocol.CONFIDENCE
) -> Interval | None:
    """Bootstrap interval of an arithmetic mean over problems; None where too few of them have a value.

    ``counts`` has shape (resamples, problems). Problems without a value are resampled too, as for geometric means.
    """
    present = np.array([value is not None for value in values], dtype=np.float64)
    filled = np.array([0.0 if value is None else value for value in values])
    weights = counts @ present
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = np.where(weights > 0, counts @ filled / weights, np.nan)
    return statistics.percentile_interval(draws, int(present.sum()), confidence)
