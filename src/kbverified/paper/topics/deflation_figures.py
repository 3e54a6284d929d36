"""Before, published and after: how far each generator's Correct Speedup moves, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbverified.leaderboard.model import Estimate
from kbverified.paper import style
from kbverified.paper.axes import (
    LEGEND_ROW_IN,
    empty,
    estimate_point,
    factor_axis,
    factor_limits,
    grid_of,
    legend_below,
    legend_rows,
    outer_labels,
    panels,
    spread,
)
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import headline_entries, models, place
from kbverified.paper.topics.deflation_falls import AFTER, BEFORE, PUBLISHED, Station, reported, words

LOOKS: tuple[tuple[str, Station, str, str, bool, float], ...] = (
    ("before", BEFORE, style.GREY, "o", False, -0.24),
    ("published", PUBLISHED, style.COLOURS[1], "D", False, 0.0),
    ("after", AFTER, style.COLOURS[0], "o", True, 0.24),
)
"""Word, station, colour, marker, whether it is filled, and where it lies within a generator's row."""
ROW_IN = 0.27


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    return {"deflation": deflation(inputs)}


def deflation(inputs: PaperInputs, columns: int = 2) -> Figure:
    """A panel per suite and level, a row per generator: its three Correct Speedups with intervals."""
    found = {
        (e.suite, e.level, e.generator): [reported(inputs, e.generator, e.suite, e.level, s) for _, s, *_ in LOOKS]
        for e in headline_entries(inputs)
    }
    names = [name for name in models(inputs) if any(key[-1] == name for key in found)]
    places = list(dict.fromkeys((suite, level) for suite, level, _ in found)) or [("", None)]
    rows, across = grid_of(len(places), columns)
    below = LEGEND_ROW_IN * legend_rows(len(LOOKS), columns, across=3 if columns > 1 else 1)
    height = rows * (ROW_IN * max(3, len(names)) + 0.35) + 0.3 + below
    made, axes = style.figure(columns, height, rows, across, squeeze=False)
    limits = factor_limits(spread(e for estimates in found.values() for e in estimates))
    shown = panels(axes, len(places))
    for panel, (suite, level) in zip(shown, places):
        here = {name: found[key] for name in names if (key := (suite, level, name)) in found}
        panel.set_title(place(inputs, suite, level) if here else "")
        if not any(estimate.value for estimates in here.values() for estimate in estimates):
            empty(panel, "no problem is solved and timed")
            continue
        _draw(panel, here, names, limits)
    outer_labels(shown, across, "Correct Speedup")
    handles = [
        Line2D([], [], color=c, marker=m, markerfacecolor=c if filled else "white", linestyle="none", label=label)
        for label, c, m, filled in ((f"{word} ({words(s)})", c, m, filled) for word, s, c, m, filled, _ in LOOKS)
    ]
    legend_below(made, handles, columns, across=3 if columns > 1 else 1)
    return made


def _draw(
    panel: Axes, here: Mapping[str, Sequence[Estimate]], names: Sequence[str], limits: tuple[float, float]
) -> None:
    factor_axis(panel, "x", limits)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(range(len(names)), list(names))
    panel.grid(False, axis="y")
    for edge in range(1, len(names)):
        panel.axhline(edge - 0.5, color="#EEEEEE", linewidth=0.6, zorder=0)
    for name, estimates in here.items():
        row = names.index(name)
        ends = [(e.value, row + look[-1]) for e, look in zip(estimates, LOOKS) if look[1] != PUBLISHED]
        if None not in (ends[0][0], ends[1][0]):
            panel.plot(*zip(*ends), color=style.GREY, linewidth=0.6, zorder=1)
        for estimate, (_, _, colour, marker, filled, offset) in zip(estimates, LOOKS):
            estimate_point(panel, estimate, row + offset, colour, marker, filled=filled)
