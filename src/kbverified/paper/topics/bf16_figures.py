"""fp32 against bf16: both runs of every pair per level, and the speedups problem by problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from kbverified.paper import style
from kbverified.paper.axes import (
    empty,
    estimate_point,
    factor_axis,
    factor_limits,
    grid_of,
    outer_labels,
    panels,
    spread,
)
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import level_title, several_suites
from kbverified.paper.topics.bf16 import Control, mean, solved

_LOOKS: dict[str, dict[str, Any]] = {
    "fp32": {"colour": style.COLOURS[0], "marker": "o"},
    "bf16": {"colour": style.COLOURS[1], "marker": "s", "filled": False},
}
_APART = 0.17
"""By how much the two runs of a pair stand above and below its line."""


def side_by_side(found: Sequence[Control], why: str, inputs: PaperInputs) -> Figure:
    """Correctness above, Correct Speedup on common problems below; a column per level, a line per pair."""
    if not found:
        return style.blank(why)
    columns = list(dict.fromkeys((control.scope.suite, control.scope.level) for control in found))
    # A suite of one level is shown once.
    columns = [(s, level) for s, level in columns if level is None or sum(c[0] == s for c in columns) > 2]
    names = list(dict.fromkeys(control.name for control in found))
    height = 1.3 + 2 * 0.25 * max(2, len(names))
    made, grid = style.figure(2, height, 2, len(columns), squeeze=False, sharey=True)
    factors: list[float] = []
    for column, key in enumerate(columns):
        here = [control for control in found if (control.scope.suite, control.scope.level) == key]
        top, bottom = grid[0][column], grid[1][column]
        for control in here:
            y = names.index(control.name)
            for dtype, side, offset in (("fp32", control.fp32, -_APART), ("bf16", control.bf16, _APART)):
                estimate_point(top, solved(control, side, inputs), y + offset, **_LOOKS[dtype])
                shown = mean(control, control.common(side), inputs)
                estimate_point(bottom, shown, y + offset, **_LOOKS[dtype])
                factors += spread([shown])
        suite = f"{key[0]}, " if several_suites(inputs) else ""
        top.set_title(f"{suite}{level_title(key[1])}")
        top.set_xlim(-0.03, 1.03)
        top.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=None))
        top.set_xlabel("solved (%)")
        bottom.set_xlabel("Correct Speedup,\ncommon problems")
    for axes in grid.flat:
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
    for axes in grid[1]:
        factor_axis(axes, "x", factor_limits(factors), most=4)
    _legend(made, inputs)
    return made


def _legend(made: Figure, inputs: PaperInputs) -> None:
    interval = f"{100 * inputs.settings.confidence:g} % interval"
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            label=dtype,
            color=look["colour"],
            marker=look["marker"],
            markerfacecolor=look["colour"] if look.get("filled", True) else "white",
        )
        for dtype, look in _LOOKS.items()
    ]
    handles.append(Line2D([], [], color="black", linewidth=0.9, label=interval))
    made.legend(handles=handles, loc="outside upper center", ncols=3)


def problem_by_problem(found: Sequence[Control], why: str, inputs: PaperInputs) -> Figure:
    """Speedup in bf16 against that in fp32, a dot per common problem, a panel per pair; dashed: both alike."""
    if not found:
        return style.blank(why)
    width = 2 if len(found) > 1 else 1
    nrows, ncols = grid_of(len(found), width)
    made, grid = style.figure(
        width, 0.5 + (1.75 if width > 1 else 2.5) * nrows, nrows, ncols, squeeze=False, sharex=True, sharey=True
    )
    every = [v for one in found for side in (one.fp32, one.bf16) for v in one.common(side) if v is not None]
    limits = factor_limits(every)
    shown = panels(grid, len(found))
    for axes, one in zip(shown, found, strict=True):
        sides = zip(one.common(one.fp32), one.common(one.bf16), strict=True)
        pairs = [(x, y) for x, y in sides if x is not None and y is not None]
        suite = f" ({one.scope.suite})" if several_suites(inputs) else ""
        axes.set_title(f"{one.name}{suite}\n{len(pairs)} problems", fontsize=7.5)
        for which in ("x", "y"):
            factor_axis(axes, which, limits, most=4)
        axes.set_box_aspect(1)
        axes.plot(limits, limits, color=style.GREY, linestyle="--", linewidth=0.8)
        axes.plot(
            [pair[0] for pair in pairs],
            [pair[1] for pair in pairs],
            linestyle="none",
            marker="o",
            markersize=2.6,
            markeredgewidth=0,
            alpha=0.6,
            color=style.COLOURS[0],
        )
        if not pairs:
            empty(axes, "no problem is solved and timed in both dtypes")
    outer_labels(shown, ncols, "speedup in fp32", "speedup in bf16")
    return made
