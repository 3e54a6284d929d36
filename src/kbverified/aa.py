"""A/A: renamed references against themselves, whose every ratio is 1 in truth. Pure and torch-free.

- within 1 %, within 3 %: share of the repeats that have a ratio and an interval whose ratio is as near to 1.
- coverage: share of the same whose interval contains 1. Each share has an interval by bootstrap over problems: repeats
  of one problem are not independent.
- sd: standard deviation between processes of a typical repeat (median of the squares, the rounds' own variance taken
  off); sd for coverage: the smallest that makes 95 % of the intervals contain 1. The latter is what
  ``protocol.BETWEEN_PROCESS_SD`` wants.

From records (``benchmarks/aa.py``) the intervals are those of the rounds alone. From kernel tables they are those of
the tables, which hold what ``BETWEEN_PROCESS_SD`` has for the device; coverage is then theirs, and sd what they lack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from kbverified import metrics, protocol, statistics
from kbverified.kernel_table import column_name
from kbverified.round_statistics import Estimated

Z = NormalDist().inv_cdf(0.5 + protocol.CONFIDENCE / 2.0)
MEDIAN_OF_CHI_SQUARE = NormalDist().inv_cdf(0.75) ** 2
"""Of one degree of freedom: the median of a squared standard normal."""

ARM_OF_STAGE: dict[str, metrics.Arm] = {"time-fp32": "naive", "time-tf32": "matched"}
"""The arm that has baseline and candidate of this very stage, both in its mode."""


@dataclass(frozen=True)
class Repeat:
    """One timing record of a renamed reference: its ratio and its interval, all None where it gives no time."""

    problem: str
    level: int
    stage: str
    kind: str
    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    def covers(self, sd: float = 0.0) -> bool:
        """Whether the interval, with so much variance between processes, contains 1."""
        return sd_to_cover(self) <= sd + 1e-12


@dataclass(frozen=True)
class Study:
    """What the repeats of one stage, of one level or all, say. An interval is None for too few problems."""

    stage: str
    level: int | None
    n: int
    n_problems: int
    n_unstable: int
    n_other: int
    """Disputed or failed: there should be none."""
    n_known: int
    """Repeats with a ratio and an interval: the denominator of the shares."""
    n_problems_known: int
    """Problems of those: what is resampled."""
    mean_ratio: Estimated
    """Geometric mean over problems of each one's geometric mean."""
    median_ratio: float | None
    within_1: Estimated
    within_3: Estimated
    furthest: float | None
    """The ratio that is furthest from 1."""
    coverage: Estimated
    coverage_with_table: float | None
    sd: float | None
    sd_for_coverage: float | None


def repeats_of(rows: Iterable[Mapping[str, Any]]) -> list[Repeat]:
    """The repeats in rows of the kernel table: of each stage its own arm, in the order of stage, then of the rows.

    A row without the stage's record, or whose matched arm comes from another stage (bf16), has no repeat of it.
    """
    listed = list(rows)
    found = []
    for stage, arm in ARM_OF_STAGE.items():
        for row in listed:
            verdict = row[f"{column_name(stage)}_verdict"]
            if verdict is None or (arm == "matched" and row["matched_from"] not in (stage, None)):
                continue
            found.append(
                Repeat(
                    problem=f"{row['suite']}/{row['problem']}",
                    level=row["level"],
                    stage=stage,
                    kind=row["device_kind"] or "cuda",
                    verdict=verdict,
                    ratio=row[f"speedup_{arm}"],
                    low=row[f"speedup_{arm}_low"],
                    high=row[f"speedup_{arm}_high"],
                )
            )
    return found


def known(found: Iterable[Repeat]) -> list[Repeat]:
    """Those with a ratio and an interval."""
    return [one for one in found if one.ratio is not None and one.low is not None and one.high is not None]


def sd_to_cover(one: Repeat) -> float:
    """The smallest standard deviation between processes with which a repeat's interval contains 1."""
    assert one.ratio is not None and one.low is not None and one.high is not None
    away = math.log(one.ratio)
    half = away - math.log(one.low) if away > 0 else math.log(one.high) - away
    return math.sqrt(max(away**2 - half**2, 0.0)) / Z


def between_process_sd(found: Sequence[Repeat]) -> float | None:
    """Standard deviation between processes (of log ratios) of a typical repeat; None for none with an interval.

    With v the variance that a repeat's interval claims, it solves median(x^2 / (v + sd^2)) = that of chi square: robust
    against a few problems that are far off, which ``sd_for_coverage`` has to take in.
    """
    given = known(found)
    if not given:
        return None
    squares = np.array([math.log(one.ratio or 1.0) ** 2 for one in given])
    claimed = np.array([(math.log((one.high or 1.0) / (one.low or 1.0)) / 2.0 / Z) ** 2 for one in given])

    def excess(sd: float) -> float:
        return float(np.median(squares / np.maximum(claimed + sd**2, 1e-18))) - MEDIAN_OF_CHI_SQUARE

    low, high = 0.0, 1.0
    if excess(low) <= 0.0:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high


def sd_for_coverage(found: Sequence[Repeat], confidence: float = protocol.CONFIDENCE) -> float | None:
    """The smallest standard deviation with which that share of the intervals contains 1; None for no interval."""
    needed = sorted(sd_to_cover(one) for one in known(found))
    return needed[math.ceil(confidence * len(needed)) - 1] if needed else None


def within(bound: float) -> Callable[[Repeat], bool]:
    """Whether a repeat's ratio is no further from 1 than that."""
    return lambda one: one.ratio is not None and abs(one.ratio - 1.0) <= bound


def _mean_of_problems(given: Sequence[Repeat], confidence: float, resamples: int) -> Estimated:
    """Geometric mean over problems of each one's own, and its interval by bootstrap over problems."""
    of_problem: dict[str, list[float | None]] = {}
    for one in given:
        of_problem.setdefault(one.problem, []).append(one.ratio)
    if not of_problem:
        return Estimated(None, None)
    problems = sorted(of_problem)
    means = [metrics.geometric_mean(of_problem[problem]) for problem in problems]
    counts = statistics.resample_counts(len(problems), statistics.seed_from("clusters", problems), resamples)
    interval = statistics.geometric_mean_interval(means, counts, confidence)
    return Estimated(metrics.geometric_mean(means), interval)


def study(
    found: Sequence[Repeat],
    stage: str,
    level: int | None = None,
    *,
    confidence: float = protocol.CONFIDENCE,
    resamples: int = protocol.BOOTSTRAP_RESAMPLES,
) -> Study:
    """What the repeats of one stage, and one level if given, say."""
    chosen = [one for one in found if one.stage == stage and level in (None, one.level)]
    given = known(chosen)
    ratios = [one.ratio for one in given if one.ratio is not None]
    sd = protocol.BETWEEN_PROCESS_SD.get(given[0].kind if given else "cuda")

    def share(hit: Callable[[Repeat], bool]) -> Estimated:
        units = [(one.problem, hit(one)) for one in given]
        interval = statistics.clustered_share_interval(units, confidence, resamples)
        return Estimated(metrics.share([good for _, good in units]), interval)

    return Study(
        stage=stage,
        level=level,
        n=len(chosen),
        n_problems=len({one.problem for one in chosen}),
        n_unstable=sum(one.verdict == "unstable" for one in chosen),
        n_other=sum(one.verdict not in ("pass", "unstable") for one in chosen),
        n_known=len(given),
        n_problems_known=len({one.problem for one in given}),
        mean_ratio=_mean_of_problems(given, confidence, resamples),
        median_ratio=statistics.median(ratios),
        within_1=share(within(0.01)),
        within_3=share(within(0.03)),
        furthest=max(ratios, key=lambda ratio: abs(math.log(ratio)), default=None),
        coverage=share(Repeat.covers),
        coverage_with_table=share(lambda one: one.covers(sd)).value if sd is not None else None,
        sd=between_process_sd(given),
        sd_for_coverage=sd_for_coverage(given, confidence),
    )


def studies(
    found: Sequence[Repeat], *, confidence: float = protocol.CONFIDENCE, resamples: int = protocol.BOOTSTRAP_RESAMPLES
) -> list[Study]:
    """Each stage, level by level and as a whole."""
    made = []
    for stage in sorted({one.stage for one in found}):
        levels = sorted({one.level for one in found if one.stage == stage})
        made += [study(found, stage, at, confidence=confidence, resamples=resamples) for at in [*levels, None]]
    return made
