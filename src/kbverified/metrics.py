"""What the numbers mean: verdicts from tolerances, speedups per arm, and the benchmark's metrics.

Pure functions: numbers in, a number or None out. None is "not measured" and never counts as 0 or 1. Formulas are
those of protocol.md: Correct Speedup and fast_p as in KernelBench (arXiv 2502.10517), the arms and the memory
metrics as in KernelBench-Verified (arXiv 2607.16241).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

Arm = Literal["naive", "published", "matched", "ieee", "compile"]
ARMS: tuple[Arm, ...] = ("naive", "published", "matched")
"""(baseline mode / candidate mode): default/default, tf32/default, tf32/tf32."""
OPTIONAL_ARMS: tuple[Arm, ...] = ("ieee", "compile")
"""Each from the optional baseline of its name, both sides in one record: ieee/ieee, compiled tf32/tf32."""
EVERY_ARM: tuple[Arm, ...] = (*ARMS, *OPTIONAL_ARMS)

T = TypeVar("T")


def within_tolerance(critical_tolerance: float | None, tau: float) -> bool | None:
    """Whether allclose(atol=tau, rtol=tau) holds; None where no critical tolerance was measured.

    The critical tolerance is the *smallest* such tau, so equality passes. Raises ValueError for a tau <= 0.
    """
    if not tau > 0:
        raise ValueError(f"tau {tau} is not positive")
    if critical_tolerance is None:
        return None
    return critical_tolerance <= tau


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """numerator / denominator; None where a side is not measured or not positive (no time and no peak is 0)."""
    if numerator is None or denominator is None or numerator <= 0 or denominator <= 0:
        return None
    return numerator / denominator


def speedup(
    arm: Arm,
    *,
    baseline_default_ms: float | None = None,
    candidate_default_ms: float | None = None,
    baseline_tf32_ms: float | None = None,
    candidate_tf32_ms: float | None = None,
    baseline_ieee_ms: float | None = None,
    candidate_ieee_ms: float | None = None,
    baseline_compile_ms: float | None = None,
    candidate_compile_ms: float | None = None,
) -> float | None:
    """Speedup of one arm from the medians of the timing records; None where a side it needs is missing.

    naive = reference(default) / candidate(default), published = reference(tf32) / candidate(default),
    matched = reference(tf32) / candidate(tf32), ieee = reference(ieee) / candidate(ieee),
    compile = compiled reference(tf32) / candidate(tf32). Raises ValueError for an unknown arm.
    """
    if arm == "naive":
        return ratio(baseline_default_ms, candidate_default_ms)
    if arm == "published":
        return ratio(baseline_tf32_ms, candidate_default_ms)
    if arm == "matched":
        return ratio(baseline_tf32_ms, candidate_tf32_ms)
    if arm == "ieee":
        return ratio(baseline_ieee_ms, candidate_ieee_ms)
    if arm == "compile":
        return ratio(baseline_compile_ms, candidate_compile_ms)
    raise ValueError(f"arm {arm!r} is none of {', '.join(EVERY_ARM)}")


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean of the values that are there; None where none is. Raises ValueError for a value <= 0."""
    logs = []
    for value in values:
        if value is None:
            continue
        if not value > 0:
            raise ValueError(f"the geometric mean needs positive values, got {value}")
        logs.append(math.log(value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def share(hits: Sequence[bool | None]) -> float | None:
    """Share of True among *all* entries (None counts as not hit); None for no entries at all."""
    return sum(hit is True for hit in hits) / len(hits) if hits else None


def correctness(solved: Sequence[bool | None]) -> float | None:
    """Share of the active problems with a verified sample. One entry per active problem."""
    return share(solved)


def correct_speedup(best_speedups: Sequence[float | None]) -> tuple[float | None, int]:
    """Geometric mean of the fastest verified sample's speedup, and over how many problems it was taken.

    One entry per active problem; None where no sample is verified or the fastest was not measured.
    """
    return geometric_mean(best_speedups), sum(value is not None for value in best_speedups)


def above(values: Sequence[float | None], p: float) -> list[bool]:
    """For each value whether it is strictly above p; None (not solved, or not measured) is above nothing."""
    return [value is not None and value > p for value in values]


def fast_p(best_speedups: Sequence[float | None], p: float) -> float | None:
    """Share of *all* active problems whose best verified speedup is strictly above p; None for no problems.

    One entry per active problem.
    """
    return share(above(best_speedups, p))


def memory_efficiency(ratios: Sequence[float | None]) -> tuple[float | None, int]:
    """Geometric mean of baseline peak / candidate peak over the problems where it was measured, and their number."""
    return correct_speedup(ratios)


def memory_efficient(ratios: Sequence[float | None]) -> float | None:
    """Share of *all* active problems whose winner needs strictly less memory than the baseline.

    As published: the paper's percentages are multiples of 1/100, 1/97 and 1/50, the sizes of its problem sets,
    not of the solved ones.
    """
    return fast_p(ratios, 1.0)


def best_of(samples: Sequence[T], *, speedup_of: Callable[[T], float | None], order: Callable[[T], int]) -> T | None:
    """The winner among *verified* samples: the highest speedup; a tie goes to the lowest order (sample number).

    Samples without a speedup cannot win; None where no sample has one.
    """
    best: T | None = None
    best_rank: tuple[float, int] | None = None
    for sample in samples:
        value = speedup_of(sample)
        if value is None:
            continue
        rank = (value, -order(sample))
        if best_rank is None or rank > best_rank:
            best, best_rank = sample, rank
    return best
