"""Axes of factors, panels that have nothing to show, and legends: what several figures share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from kbverified.leaderboard.model import Estimate
from kbverified.paper import style

SMALL_PT = 6.0
"""The smallest letters of a figure."""
TICKS_MAX = 5
LEGEND_ROW_IN = 0.17
NAME_LETTERS = 18
BAND_ALPHA = 0.22


def factor_limits(values: Iterable[float], at_least: float = 1.6) -> tuple[float, float]:
    """Limits of a logarithmic axis around some factors and 1, with some room; ``at_least`` to either side of 1."""
    logs = [math.log(value) for value in values if value > 0]
    low = min([-math.log(at_least), *logs])
    high = max([math.log(at_least), *logs])
    room = 0.06 * (high - low)
    return math.exp(low - room), math.exp(high + room)


def factor_ticks(low: float, high: float, most: int = TICKS_MAX) -> list[float]:
    """Round factors between two limits, 1 among them where it lies there: even steps over narrow ranges, then 1-2-5
    steps, then decades."""
    for step in (0.05, 0.1, 0.2, 0.5) if high / low < 2 else ():
        ticks = [round(k * step, 2) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(ticks) <= most:
            return ticks
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**k for k in decades for step in steps]
        ticks = [float(f"{tick:.3g}") for tick in found if low <= tick <= high]
        if len(ticks) <= most:
            return ticks
    stride = math.ceil(len(ticks) / most)
    return [10.0**k for k in decades if k % stride == 0 and low <= 10.0**k <= high]


def factor_axis(axes: Axes, which: str, limits: tuple[float, float], most: int = TICKS_MAX) -> None:
    """Make ``which`` ("x" or "y") a logarithmic axis of factors, with plain numbers and a line at 1."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(factor_ticks(*limits, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    line = axes.axvline if which == "x" else axes.axhline
    line(1.0, color=style.GREY, linewidth=0.8, zorder=1)


def estimate_point(
    axes: Axes, x: Estimate | float, y: Estimate | float, colour: str, marker: str, *, filled: bool = True
) -> None:
    """A point with the intervals that its sides have; nothing where a side has no value."""
    values, bars = zip(_value_and_bar(x), _value_and_bar(y))
    if values[0] is None or values[1] is None:
        return
    axes.errorbar(
        [values[0]],
        [values[1]],
        xerr=bars[0],
        yerr=bars[1],
        color=colour,
        marker=marker,
        markerfacecolor=colour if filled else "white",
        linestyle="none",
        elinewidth=0.7,
    )


def _value_and_bar(side: Estimate | float) -> tuple[float | None, list[list[float]] | None]:
    """A value, and the distances to its interval's ends as matplotlib's errorbar takes them."""
    if not isinstance(side, Estimate):
        return side, None
    if side.value is None or side.low is None or side.high is None:
        return side.value, None
    return side.value, [[max(0.0, side.value - side.low)], [max(0.0, side.high - side.value)]]


def broken_line(
    axes: Axes, xs: Sequence[float], values: Sequence[float | None], colour: str, dashes: str, scale: float = 1.0
) -> None:
    """A line that is broken where there is no value."""
    axes.plot(xs, [math.nan if v is None else scale * v for v in values], color=colour, linestyle=dashes)


def band(axes: Axes, xs: Sequence[float], found: Sequence[Estimate], colour: str, scale: float = 1.0) -> None:
    """A line, and the intervals around it as a band."""
    low, high = ([math.nan if (v := getattr(e, end)) is None else scale * v for e in found] for end in ("low", "high"))
    broken_line(axes, xs, [estimate.value for estimate in found], colour, "-", scale)
    axes.fill_between(xs, low, high, color=colour, alpha=BAND_ALPHA, linewidth=0)


def spread(estimates: Iterable[Estimate]) -> list[float]:
    """All values and ends of intervals that are there."""
    found = [number for e in estimates for number in (e.value, e.low, e.high)]
    return [number for number in found if number is not None]


def empty(axes: Axes, reason: str) -> None:
    """A panel that says why it has nothing to show."""
    axes.text(0.5, 0.5, _wrapped(reason), transform=axes.transAxes, ha="center", va="center", fontsize=SMALL_PT)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)


def _wrapped(text: str, width: int = 26) -> str:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def grid_of(n: int, columns: int) -> tuple[int, int]:
    """Rows and columns of n panels in a figure of one or two columns of a page."""
    across = min(n, 4 if columns > 1 else 2)
    return math.ceil(n / across), across


def panels(made: Any, n: int) -> list[Axes]:
    """The first n axes of ``style.figure(..., squeeze=False)`` in reading order; the others are taken away."""
    flat: list[Axes] = list(made.flat)
    for spare in flat[n:]:
        spare.remove()
    return flat[:n]


def short_names(generators: Sequence[str], most: int = NAME_LETTERS) -> dict[str, str]:
    """Names as a figure has room for. Of longer ones, what they have in common at their ends is left out, or else the
    middle; where two would look alike even so, they begin with their number."""
    long = [g for g in generators if len(g) > most]
    start = _alike(long)
    end = _alike([g[start:][::-1] for g in long])
    longest = max((len(g) - start - end for g in long), default=0)
    start = max(0, start - max(0, most - 2 - longest))  # as much as there is room for
    found = {g: g for g in generators}
    for g in long:
        differs = f"{'…' if start else ''}{g[start : len(g) - end]}{'…' if end else ''}"
        kept = (most - 1) // 2
        found[g] = differs if len(long) > 1 and len(differs) <= most else f"{g[:kept]}…{g[-(most - 1 - kept) :]}"
    if len(set(found.values())) == len(found):
        return found
    return {g: f"{i + 1}: {found[g][3:]}" if g in long else g for i, g in enumerate(generators)}


def _alike(names: Sequence[str]) -> int:
    """How many letters all names begin with."""
    return next((i for i, letters in enumerate(zip(*names)) if len(set(letters)) > 1), min(map(len, names), default=0))


def generator_handles(
    generators: Sequence[str], *, line: bool = False, among: Sequence[str] | None = None
) -> list[Line2D]:
    """Legend entries of some generators in the colours and markers that they have among all of them."""
    all_of_them = among or generators
    colours, markers, names = style.colours(all_of_them), style.markers(all_of_them), short_names(all_of_them)
    return [
        Line2D([], [], color=colours[g], marker=markers[g], linestyle="-" if line else "none", label=names[g])
        for g in generators
    ]


def outer_labels(shown: Sequence[Axes], across: int, x: str, y: str | None = None) -> None:
    """Label the lowest panel of each column and the first of each row, in a grid so many panels across.

    The panels have the same limits, so that the others need no numbers.
    """
    for i, panel in enumerate(shown):
        if i + across >= len(shown):
            panel.set_xlabel(x)
        else:
            panel.tick_params(labelbottom=False)
        if i % across:
            panel.tick_params(labelleft=False)
        elif y:
            panel.set_ylabel(y)


def legend_below(made: Figure, handles: Sequence[Line2D], columns: int, across: int | None = None) -> None:
    """One legend below all panels. ``across``: entries per row; left out, as many as usually fit."""
    if handles:
        per_row = min(len(handles), across or (4 if columns > 1 else 2))
        made.legend(
            handles=list(handles), loc="outside lower center", ncols=per_row, handletextpad=0.4, columnspacing=1.2
        )


def legend_rows(n: int, columns: int, across: int | None = None) -> int:
    return math.ceil(n / (across or (4 if columns > 1 else 2)))
