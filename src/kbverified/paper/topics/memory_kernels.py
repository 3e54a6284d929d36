"""Single winners and their memory: which kernels there are, and in which quadrant of speed and memory each lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbverified.leaderboard.build import Scope
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import best, generators_in, models, suites_of

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


def kernels_of(inputs: PaperInputs, scope: Scope, field: str, generator: str) -> list[Kernel]:
    """A generator's winners of a scope, in the headline arm and test, that have the memory figure."""
    c = inputs.leaderboard.conditions
    won = best(inputs, generator, scope, c.headline_arm, c.headline_test).winners
    return [
        Kernel(generator, row["problem"], row["level"], row[f"speedup_{c.headline_arm}"], row[f"memory_ratio_{field}"])
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
