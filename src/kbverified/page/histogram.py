"""A timing record's repetitions as a histogram: a few hundred bytes where the repetitions are ten thousand.

Bins are equal steps of the logarithm, and the same for both sides, so that the two can be laid over each other. What
lies far outside (a launch that met another process) would leave all else in one bin: it goes into the last bin of its
end, and is counted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kbverified.page.packing import rounded
from kbverified.records.timing import Round

BINS = 48
DIGITS = 5
FENCE = 3.0
"""How many interquartile ranges of the logarithm beyond a quartile still get bins of their own (Tukey's far out)."""


def of_rounds(rounds: tuple[Round, ...]) -> dict[str, Any] | None:
    """Histogram of the repetitions of rounds that were not dropped, in ms; None without any.

    ``edges_ms``: the first and the last edge; ``baseline`` and ``candidate``: counts per bin, ``n``, quartiles.
    """
    kept = [r for r in rounds if not r.dropped]
    sides = {
        "baseline": _positive(t for r in kept for t in r.baseline_ms),
        "candidate": _positive(t for r in kept for t in r.candidate_ms),
    }
    if any(not times.size for times in sides.values()):
        return None
    logs = {side: np.log(times) for side, times in sides.items()}
    low, high = _range(logs)
    edges = np.linspace(low, high, BINS + 1)
    shown: dict[str, Any] = {"edges_ms": [rounded(math.exp(edge), DIGITS) for edge in (low, high)], "rounds": len(kept)}
    for side, values in logs.items():
        counts, _ = np.histogram(np.clip(values, low, high), edges)
        times = sides[side]
        shown[side] = {
            "counts": counts.tolist(),
            "n": int(times.size),
            "outside": int(((values < low) | (values > high)).sum()),
            "quartiles_ms": [rounded(float(q), DIGITS) for q in np.quantile(times, [0, 0.25, 0.5, 0.75, 1])],
        }
    return shown


def _positive(times: Any) -> Any:
    values = np.asarray(list(times), dtype=np.float64)
    return values[values > 0]


def _range(logs: dict[str, Any]) -> tuple[float, float]:
    """From the least to the largest logarithm that is not far out on its side, a little apart in any case."""
    lows, highs = [], []
    for values in logs.values():
        first, third = np.quantile(values, [0.25, 0.75])
        room = FENCE * max(third - first, 1e-3)
        inside = values[(values >= first - room) & (values <= third + room)]
        lows.append(float(inside.min()))
        highs.append(float(inside.max()))
    low, high = min(lows), max(highs)
    return (low, high) if high - low > 1e-3 else (low - 5e-4, high + 5e-4)
