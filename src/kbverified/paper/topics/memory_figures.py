"""Memory against speed: one point per generator and level with intervals, and one point per winning kernel."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbverified.leaderboard.model import Entry
from kbverified.paper import style
from kbverified.paper.axes import (
    LEGEND_ROW_IN,
    SMALL_PT,
    empty,
    estimate_point,
    factor_axis,
    factor_limits,
    generator_handles,
    grid_of,
    legend_below,
    legend_rows,
    outer_labels,
    panels,
    spread,
)
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import headline_entries, models, place
from kbverified.paper.topics.memory_kernels import FIGURES, Kernel, count_quadrants, winning_kernels

PANEL_IN = 1.75
ROOM_FOR_WORDS = 1.5
"""How much further than the points a panel reaches, so that the names of its quadrants hide few of them."""


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    made = {f"memory_speed_levels_{field}": levels(inputs, field) for field in FIGURES}
    return made | {f"memory_speed_kernels_{field}": kernels(inputs, field) for field in FIGURES}


def levels(inputs: PaperInputs, field: str, columns: int = 2) -> Figure:
    """Memory efficiency against Correct Speedup, a panel per suite and level, a point per generator."""
    entries = headline_entries(inputs)
    places = list(dict.fromkeys((e.suite, e.level) for e in entries)) or [("", None)]
    rows, across = grid_of(len(places), columns)
    below = LEGEND_ROW_IN * legend_rows(len(models(inputs)), columns)
    made, axes = style.figure(columns, rows * PANEL_IN + 0.35 + below, rows, across, squeeze=False)
    x_limits = factor_limits(spread(e.correct_speedup for e in entries), at_least=1.25)
    y_limits = factor_limits(spread(e.memory_efficiency[field] for e in entries), at_least=1.25)
    shown = panels(axes, len(places))
    for panel, (suite, level) in zip(shown, places):
        here = [e for e in entries if (e.suite, e.level) == (suite, level)]
        panel.set_title(place(inputs, suite, level) if here else "")
        _level_panel(panel, here, field, inputs, x_limits, y_limits)
    outer_labels(shown, across, "Correct Speedup", "memory efficiency")
    legend_below(made, generator_handles(models(inputs), among=inputs.generators), columns)
    return made


def _level_panel(
    panel: Axes,
    entries: list[Entry],
    field: str,
    inputs: PaperInputs,
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
) -> None:
    colours, markers = style.colours(inputs.generators), style.markers(inputs.generators)
    there = [e for e in entries if None not in (e.correct_speedup.value, e.memory_efficiency[field].value)]
    if not there:
        reasons = {e.memory_efficiency[field].why_null for e in entries}
        empty(panel, "; ".join(sorted(r for r in reasons if r)) or "no generator")
        return
    factor_axis(panel, "x", x_limits)
    factor_axis(panel, "y", y_limits)
    for e in there:
        speed, memory = e.correct_speedup, e.memory_efficiency[field]
        estimate_point(panel, speed, memory, colours[e.generator], markers[e.generator])


LEVEL_MARKERS = ("o", "^", "s", "D", "v")


def kernels(inputs: PaperInputs, field: str, columns: int = 2) -> Figure:
    """Memory ratio against speedup of every winner, a panel per generator, levels told apart, quadrants named."""
    by_generator = winning_kernels(inputs, field)
    names = list(by_generator) or [""]
    columns = 1 if len(names) == 1 else columns
    rows, across = grid_of(len(names), columns)
    height = PANEL_IN if len(names) > 1 else 2.6
    made, axes = style.figure(columns, rows * height + 0.35 + LEGEND_ROW_IN, rows, across, squeeze=False)
    every = [k for found in by_generator.values() for k in found]
    shown = sorted({k.level for k in every})
    x_limits = _symmetric(factor_limits(k.speedup for k in every))
    y_limits = _symmetric(factor_limits(k.ratio for k in every), room=ROOM_FOR_WORDS)
    on_page = panels(axes, len(names))
    for panel, name in zip(on_page, names):
        found = by_generator.get(name, [])
        panel.set_title(_title(name, found), fontsize=7.5)
        if not found:
            empty(panel, "no winner whose memory was measured")
            continue
        factor_axis(panel, "x", x_limits)
        factor_axis(panel, "y", y_limits)
        for level, colour, marker in _looks(shown):
            xs, ys = zip(*([(k.speedup, k.ratio) for k in found if k.level == level] or [(float("nan"),) * 2]))
            panel.plot(xs, ys, marker, color=colour, markersize=2.2, alpha=0.55, markeredgewidth=0)
        _name_quadrants(panel, found)
    outer_labels(on_page, across, "speedup", "memory ratio")
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=f"level {level}")
        for level, colour, marker in _looks(shown)
    ]
    legend_below(made, handles, columns, across=5)
    return made


def _looks(levels_shown: list[int]) -> list[tuple[int, str, str]]:
    return [
        (level, style.COLOURS[i % len(style.COLOURS)], LEVEL_MARKERS[i % len(LEVEL_MARKERS)])
        for i, level in enumerate(levels_shown)
    ]


def _title(name: str, found: list[Kernel]) -> str:
    """With the share of winners that need as much as the baseline: they lie between the quadrants."""
    if not found:
        return name
    counts = count_quadrants(found)
    equal = 100 * (counts["faster_equal"] + counts["slower_equal"]) / len(found)
    return f"{name}\nn {len(found)}, equal {equal:.0f} %"


def _symmetric(limits: tuple[float, float], room: float = 1.0) -> tuple[float, float]:
    """Around 1, so that the quadrants are of one size, and so many times as far as the limits reach."""
    reach = max(limits[1], 1.0 / limits[0]) ** room
    return 1.0 / reach, reach


CORNERS = (
    ("faster_less", "faster,\nless memory", 0.98, 0.98),
    ("faster_more", "faster,\nmore memory", 0.98, 0.02),
    ("slower_less", "not faster,\nless memory", 0.02, 0.98),
    ("slower_more", "not faster,\nmore memory", 0.02, 0.02),
)


def _name_quadrants(panel: Axes, found: list[Kernel]) -> None:
    """Name and share of each quadrant in its corner."""
    counts = count_quadrants(found)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
    for column, words, x, y in CORNERS:
        panel.text(
            *(x, y, f"{words}\n{100 * counts[column] / len(found):.0f} %"),
            transform=panel.transAxes,
            ha="right" if x > 0.5 else "left",
            va="top" if y > 0.5 else "bottom",
            fontsize=SMALL_PT,
            bbox=box,
        )
