"""Single winners and their memory: which kernels there are, and in which quadrant of speed and memory each lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.estimates import clustered_share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.metrics import Arm
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import best, generators_in, models, suites_of
from kbverified.verdicts import Test

FIGURES = ("allocator_peak", "device_peak")
"""Memory figures that single kernels are shown by: the published one, and the one that sees all memory."""


@dataclass(frozen=True)
class Kernel:
    """A winner whose memory was measured."""

    generator: str
    problem: str
    level: int
    speedup: float
    ratio: float
    """Baseline / candidate peak."""


def kernels_of(
    inputs: PaperInputs, scope: Scope, field: str, generator: str, arm: Arm | None = None, test: Test | None = None
) -> list[Kernel]:
    """A generator's winners of a scope that have the memory figure; the headline's arm and test where none is given."""
    c = inputs.leaderboard.conditions
    arm, test = arm or c.headline_arm, test or c.headline_test
    won = best(inputs, generator, scope, arm, test).winners
    return [
        Kernel(generator, row["problem"], row["level"], row[f"speedup_{arm}"], row[f"memory_ratio_{field}"])
        for row in won
        if row is not None and row[f"memory_ratio_{field}"] is not None
    ]


def winning_kernels(inputs: PaperInputs, field: str) -> dict[str, list[Kernel]]:
    """Every generator's winners over all suites and levels, under the headline test."""
    test = inputs.leaderboard.conditions.headline_test
    found: dict[str, list[Kernel]] = {name: [] for name in models(inputs)}
    for scope in (per_test[test] for per_test in suites_of(inputs)):
        for name in generators_in(inputs, scope.suite):
            found[name] += kernels_of(inputs, scope, field, name)
    return found


def share_needing_more(kernels: Sequence[Kernel], settings: AggregationSettings) -> Estimate:
    """Share of some winners, of one generator or several, that need more memory than the baseline."""
    return clustered_share_estimate([(k.problem, k.ratio < 1) for k in kernels], "no winner was measured", settings)


QUADRANTS = (
    ("faster_less", "faster, less", True, "less"),
    ("faster_equal", "faster, equal", True, "equal"),
    ("faster_more", "faster, more", True, "more"),
    ("slower_less", "not faster, less", False, "less"),
    ("slower_equal", "not faster, equal", False, "equal"),
    ("slower_more", "not faster, more", False, "more"),
)
"""Column, words, whether the speedup is strictly above 1, and the candidate's memory against the baseline's."""


def memory_word(ratio: float) -> str:
    return "less" if ratio > 1 else "more" if ratio < 1 else "equal"


def count_quadrants(kernels: Sequence[Kernel]) -> dict[str, int]:
    """Kernels in each of QUADRANTS, by its column."""
    return {
        name: sum((k.speedup > 1) is faster and memory_word(k.ratio) == word for k in kernels)
        for name, _, faster, word in QUADRANTS
    }
