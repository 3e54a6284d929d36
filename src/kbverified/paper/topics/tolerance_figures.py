"""Curves over tau, a panel per generator, evaluated at so many taus per decade and at those of the list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kbverified import metrics, protocol
from kbverified.leaderboard.estimates import share_estimate
from kbverified.leaderboard.scopes import Best
from kbverified.paper import style
from kbverified.paper.axes import BAND_ALPHA, band, broken_line, factor_axis, factor_limits, spread
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import several_suites
from kbverified.paper.topics.tolerance_sweep import NOTHING, TEST, Swept, curve, mean

POINTS_PER_DECADE = 8
_MARK: dict[str, Any] = {"color": "#999999", "linestyle": ":", "linewidth": 0.9}


def correctness(swept: Sequence[Swept], inputs: PaperInputs) -> Figure:
    """Share of active problems solved, by the hidden and by the standard test, over tau."""
    made, panels = _panels(swept, "solved (%)")
    for axes, part in panels:
        taus, rows = grid(part.taus), inputs.rows[part.generator]
        standard = curve(rows, part.scope, part.arm, "standard", taus)
        broken_line(axes, taus, [metrics.share(best.solved) for best in standard], style.GREY, "--", 100.0)
        hidden = curve(rows, part.scope, part.arm, TEST, taus)
        shares = [share_estimate(best.solved, part.scope, None, inputs.settings) for best in hidden]
        band(axes, taus, shares, _colour(part, inputs), 100.0)
        axes.set_ylim(0, 103)
    _legend(made, panels, inputs, ("hidden test", "standard test"))
    return made


def speedup(swept: Sequence[Swept], inputs: PaperInputs) -> Figure:
    """Correct Speedup over tau: over the problems solved there, and over those solved at every tau of the list."""
    made, panels = _panels(swept, f"Correct Speedup\n({inputs.settings.headline_arm} arm)")
    drawn: list[float] = []
    for axes, part in panels:
        taus = grid(part.taus)
        found = curve(inputs.rows[part.generator], part.scope, part.arm, TEST, taus)
        own = [mean(best.column(f"speedup_{part.arm}"), part, inputs) for best in found]
        band(axes, taus, own, _colour(part, inputs))
        # Below the tightest of the list the common problems are not all solved.
        common = [(tau, _common_mean(best, part)) for tau, best in zip(taus, found) if tau >= part.taus[-1]]
        broken_line(axes, [tau for tau, _ in common], [value for _, value in common], style.GREY, "--")
        drawn += [*spread(own), *(value for _, value in common if value is not None)]
    for axes, _ in panels:
        factor_axis(axes, "y", factor_limits(drawn))
    _legend(made, panels, inputs, ("problems solved at this tau", "problems solved at every tau of the tables"))
    return made


def grid(taus: Sequence[float]) -> list[float]:
    """Taus from a tenth of the tightest of the list to ten times the loosest, the list's own among them; none beyond
    the tolerance up to which candidates were timed."""
    low, high = math.log10(min(taus)) - 1, math.log10(min(10 * max(taus), protocol.TIMING_WORTHLESS_TOLERANCE))
    points = np.linspace(low, high, max(2, math.ceil((high - low) * POINTS_PER_DECADE) + 1))
    even = {float(f"{10**point:.4g}") for point in points}
    return sorted(even | set(taus))


def _common_mean(best: Best, part: Swept) -> float | None:
    where = [value is not None for value in part.common(part.taus[-1])]
    values = best.column(f"speedup_{part.arm}")
    return metrics.geometric_mean(value for value, here in zip(values, where, strict=True) if here)


def _colour(part: Swept, inputs: PaperInputs) -> str:
    return style.colours(inputs.generators)[part.generator]


def _panels(swept: Sequence[Swept], label: str) -> tuple[Figure, list[tuple[Any, Swept]]]:
    if not swept:
        return style.blank(NOTHING), []
    ncols = min(4, len(swept))
    nrows = -(-len(swept) // ncols)
    made, axes = style.figure(
        min(2, len(swept)), (1.1 if len(swept) == 1 else 0.7) + 1.45 * nrows, nrows, ncols, squeeze=False, sharey=True
    )
    for spare in axes.flat[len(swept) :]:
        spare.set_axis_off()
    for i, one in enumerate(axes.flat[: len(swept)]):
        if i + ncols >= len(swept):
            one.set_xlabel("tau")
        if i % ncols == 0:
            one.set_ylabel(label)
        one.set_xscale("log")
    return made, list(zip(axes.flat, swept))


def _legend(made: Figure, panels: Sequence[tuple[Any, Swept]], inputs: PaperInputs, names: tuple[str, str]) -> None:
    """Titles, marks of the list of tau, and one legend for all panels: ``names`` of the solid and the dashed line."""
    if not panels:
        return
    for axes, part in panels:
        axes.set_xlim(grid(part.taus)[0] / 1.2, grid(part.taus)[-1] * 1.2)
        for tau in part.taus:
            axes.axvline(tau, **_MARK, zorder=1)
        suite = f"\n{part.scope.suite}" if several_suites(inputs) else ""
        axes.set_title(f"{part.generator}{suite}", fontsize=7.5)
        axes.minorticks_off()
    one = len(panels) == 1
    colour = _colour(panels[0][1], inputs) if one else "black"
    handles: list[Any] = [
        Line2D([], [], color=colour, label=names[0]),
        Line2D([], [], color=style.GREY, linestyle="--", label=names[1]),
        Line2D([], [], **_MARK, label="tau of the tables"),
        Patch(facecolor=colour, alpha=BAND_ALPHA, label=f"{100 * inputs.settings.confidence:g} % interval"),
    ]
    made.legend(handles=handles, loc="outside upper center", ncols=2 if one else 4)
