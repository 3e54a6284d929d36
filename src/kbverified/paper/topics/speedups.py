"""Distribution of the best verified speedups over all active problems, per arm: unsolved problems are part of it.

The curve at x is the share of active problems whose best verified speedup is *not* above x, that is 1 - fast_x. A
problem without one counts from the left edge on, so a curve starts at the share that is unsolved or not timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbverified.leaderboard.build import Scope
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.leaderboard.render import ARM_MEANING
from kbverified.metrics import Arm, above
from kbverified.paper.contrasts import share_difference
from kbverified.paper.finding import Finding, claim
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import conditions_for, generators_in, note_for, place, speedups, suites_of
from kbverified.paper.table import Cell, Column, Table

TOPIC = "speedups"


@dataclass(frozen=True)
class Curve:
    """Best speedups of one generator in one arm, over the active problems of one suite."""

    generator: str
    suite: str
    arm: Arm
    speedups: tuple[float, ...]
    """Of the problems that have one, ascending."""
    n_problems: int
    """Active problems."""

    def steps(self) -> tuple[list[float], list[float]]:
        """Points of the distribution: speedups and the share of active problems that is not above each."""
        none = self.n_problems - len(self.speedups)
        return list(self.speedups), [(none + i + 1) / self.n_problems for i in range(len(self.speedups))]


def curves(inputs: PaperInputs) -> list[Curve]:
    """Per suite, arm and generator, under the headline test; none where solved problems have no speedup in an arm."""
    c = inputs.leaderboard.conditions
    found = []
    for scope in (per_test[c.headline_test] for per_test in suites_of(inputs)):
        for arm in c.arms if scope.problems else ():
            for name in generators_in(inputs, scope.suite):
                values = speedups(inputs, name, scope, arm, c.headline_test)
                there = tuple(sorted(v for v in values if v is not None))
                entry = inputs.leaderboard.entry(name, scope.suite, None, arm, c.headline_test)
                if there or (entry is not None and entry.n_solved == 0):
                    found.append(Curve(name, scope.suite, arm, there, len(scope.problems)))
    return found


# --- table and findings -------------------------------------------------------------------------------------


def tables(inputs: PaperInputs) -> list[Table]:
    c = inputs.leaderboard.conditions
    thresholds = [f"{p:g}" for p in inputs.settings.fast_p]
    columns = (
        *(Column(name, name) for name in ("suite", "arm", "generator", "dtype")),
        *(Column(f"n_{name}", name, kind="count") for name in ("active", "solved", "timed")),
        *(Column(f"fast_{p}", f"fast_{p}", kind="percent", interval=True) for p in thresholds),
    )
    rows: list[tuple[Cell, ...]] = [
        (*(e.suite, e.arm, e.generator, e.dtype), *(e.n_problems, e.n_solved, e.n_timed), *e.fast_p.values())
        for e in _entries(inputs)
    ]
    arms = "; ".join(f"{arm}, {ARM_MEANING[arm]}" for arm in c.arms)
    note = (
        "fast_p: share of all active problems whose best verified speedup is strictly above p; what is not solved, or "
        f"solved and not timed, is above nothing. All levels. Arms: {arms}. {note_for(inputs, test=c.headline_test)}"
    )
    return [Table("speedups", "Distribution of the best verified speedups", note, columns, tuple(rows))]


def _entries(inputs: PaperInputs) -> list[Entry]:
    """All levels under the headline test, by suite, arm and generator."""
    board = inputs.leaderboard
    found = (
        board.entry(name, suite, None, arm, board.conditions.headline_test)
        for suite in board.conditions.suites
        for arm in board.conditions.arms
        for name in inputs.generators
    )
    return [e for e in found if e is not None]


def findings(inputs: PaperInputs) -> list[Finding]:
    """On how many more problems a generator seems faster than the baseline in the naive arm than in the matched one."""
    test = inputs.leaderboard.conditions.headline_test
    found = []
    for scope in (per_test[test] for per_test in suites_of(inputs)):
        for name in generators_in(inputs, scope.suite):
            naive, matched = (speedups(inputs, name, scope, arm, test) for arm in ("naive", "matched"))
            estimate = _difference(naive, matched, scope, inputs)
            under = conditions_for(inputs, scope, test=test, generator=name)
            subject = (
                f"the share of active problems on which {name} is faster than the baseline in the naive arm less that "
                f"in the matched arm, on {place(inputs, scope.suite, None)},"
            )
            found.append(claim(TOPIC, subject, estimate, 0.0, under, form="percent"))
    return found


def _difference(
    naive: Sequence[float | None], matched: Sequence[float | None], scope: Scope, inputs: PaperInputs
) -> Estimate:
    for arm, values in (("naive", naive), ("matched", matched)):
        if not any(value is not None for value in values):
            return Estimate(value=None, n=0, why_null=f"no problem is solved and timed in the {arm} arm")
    return share_difference(above(naive, 1.0), above(matched, 1.0), scope, inputs.settings)
