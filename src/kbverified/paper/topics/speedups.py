"""Distribution of the best verified speedups over all active problems, per arm: unsolved problems are part of it.

The curve at x is the share of active problems whose best verified speedup is *not* above x, that is 1 - fast_x. A
problem without one counts from the left edge on, so a curve starts at the share that is unsolved or not timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbverified.leaderboard.headline import ARM_MEANING
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.metrics import Arm, above
from kbverified.paper import style
from kbverified.paper.axes import (
    LEGEND_ROW_IN,
    SMALL_PT,
    empty,
    factor_axis,
    factor_limits,
    generator_handles,
    legend_below,
    legend_rows,
    outer_labels,
    panels,
)
from kbverified.paper.contrasts import share_difference
from kbverified.paper.finding import Finding, claim
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    conditions_for,
    generators_in,
    models,
    note_for,
    place,
    several_suites,
    speedups,
    suites_of,
    why_arms_alike,
)
from kbverified.paper.table import Cell, Column, Table

TOPIC = "speedups"
MARKS = 4
"""Markers on a curve, so that curves are told apart without colour."""
EDGE_SHARE = 0.12
"""Of the width of a panel, beyond what the speedups take, for the problems without one."""


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

    @property
    def without(self) -> float:
        """Share of active problems that have no speedup: not solved, or not timed."""
        return 1.0 - len(self.speedups) / self.n_problems


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


# --- figure -------------------------------------------------------------------------------------------------


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    return {"speedups": distribution(inputs)}


def distribution(inputs: PaperInputs, columns: int = 2) -> Figure:
    """A panel per suite and arm, a curve per generator; the grey edge holds the problems without a speedup."""
    c = inputs.leaderboard.conditions
    found = curves(inputs)
    wanted = [(suite, arm) for suite in c.suites for arm in c.arms] or [("", c.headline_arm)]
    across = min(len(c.arms), 3) if columns > 1 else 1
    rows = -(-len(wanted) // across)
    legend = LEGEND_ROW_IN * legend_rows(len(models(inputs)), columns)
    made, axes = style.figure(
        columns, rows * (2.0 if columns > 1 else 1.6) + 0.35 + legend, rows, across, squeeze=False
    )
    limits = factor_limits(value for curve in found for value in curve.speedups)
    limits = (limits[0] / (limits[1] / limits[0]) ** EDGE_SHARE, limits[1])
    shown = panels(axes, len(wanted))
    for panel, (suite, arm) in zip(shown, wanted):
        here = [curve for curve in found if (curve.suite, curve.arm) == (suite, arm)]
        panel.set_title(f"{arm} arm, {suite}" if several_suites(inputs) else f"{arm} arm")
        if here:
            _draw(panel, here, inputs, limits)
        else:
            entries = (inputs.leaderboard.entry(g, suite, None, arm, c.headline_test) for g in models(inputs))
            reasons = {e.correct_speedup.why_null for e in entries if e is not None}
            empty(panel, "; ".join(sorted(r for r in reasons if r)) or "nothing was measured")
    outer_labels(shown, across, "best verified speedup at most", "active problems (%)")
    legend_below(made, generator_handles(models(inputs), line=True, among=inputs.generators), columns)
    return made


def _draw(panel: Axes, here: list[Curve], inputs: PaperInputs, limits: tuple[float, float]) -> None:
    colours, markers = style.colours(inputs.generators), style.markers(inputs.generators)
    factor_axis(panel, "x", limits)
    panel.set_ylim(0, 102)
    panel.set_yticks(range(0, 101, 20))
    edge = limits[0] * (limits[1] / limits[0]) ** (0.8 * EDGE_SHARE)
    panel.axvspan(limits[0], edge, color="#E6E6E6", linewidth=0, zorder=0)
    panel.text(
        *((limits[0] * edge) ** 0.5, 99, "not solved or not timed"),
        rotation=90,
        ha="center",
        va="top",
        fontsize=SMALL_PT,
    )
    for i, curve in enumerate(here):
        xs, shares = curve.steps()
        percent = [100.0 * share for share in (curve.without, *shares, 1.0)]
        panel.plot(
            *([limits[0], *xs, limits[1]], percent),
            drawstyle="steps-post",
            color=colours[curve.generator],
            linewidth=1.0,
        )
        marked = [int(len(xs) * (k + (i + 0.5) / len(here)) / MARKS) for k in range(MARKS)] if xs else []
        panel.plot(
            *([xs[k] for k in marked], [percent[k + 1] for k in marked], markers[curve.generator]),
            color=colours[curve.generator],
            markersize=3.0,
        )


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
        for name in models(inputs)
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
            if why := why_arms_alike(inputs, name):
                estimate = Estimate(value=None, n=0, why_null=why)
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
