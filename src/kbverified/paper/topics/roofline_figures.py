"""Candidate's against baseline's fraction of the roofline: of the floor, and of the hard floor."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbverified import protocol
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
    panels,
)
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import generators_in, models, suites_of
from kbverified.paper.topics.roofline_points import Point, points

BEYOND = 1.0 / (1.0 - protocol.ROOFLINE_MARGIN)
"""The fraction from which on a time is below a floor by more than the margin."""
ROOM_FOR_WORDS = 1.4
ODD_COLOUR = "#B00020"


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    return {"roofline": roofline(inputs)}


def roofline(inputs: PaperInputs, columns: int = 2) -> Figure:
    """Two panels, floor / time and hard floor / time, a point per winner and per implausible claim."""
    test = inputs.leaderboard.conditions.headline_test
    scopes = [per_test[test] for per_test in suites_of(inputs)]
    found = [p for s in scopes for name in generators_in(inputs, s.suite) for p in points(inputs, s, name)]
    hard = [p for p in found if p.hard_share > 0]
    rows, across = (1, 2) if columns > 1 else (2, 1)
    handles = [*generator_handles(models(inputs), among=inputs.generators), *_odd_handles(found)]
    below = LEGEND_ROW_IN * legend_rows(len(handles), columns)
    made, axes = style.figure(columns, rows * 2.7 + 0.1 + below, rows, across, squeeze=False)
    left, right = panels(axes, 2)
    for panel, there, floor in ((left, [(p, 1.0) for p in found], "floor"), (right, _shares(hard), "hard floor")):
        panel.set_title(f"fraction of the {floor} ({len(there)} kernels)")
        if not there:
            empty(panel, f"no winner has a {floor}")
            continue
        _draw(panel, there, inputs.generators, floor)
        panel.set_xlabel(f"baseline: {floor} / time")
        panel.set_ylabel(f"candidate: {floor} / time")
    legend_below(made, handles, columns)
    return made


def _shares(found: Sequence[Point]) -> list[tuple[Point, float]]:
    return [(p, p.hard_share) for p in found]


def _draw(panel: Axes, there: Sequence[tuple[Point, float]], generators: Sequence[str], floor: str) -> None:
    colours, markers = style.colours(generators), style.markers(generators)
    limits = factor_limits([v for p, share in there for v in (p.baseline * share, p.candidate * share)], at_least=1.3)
    factor_axis(panel, "x", limits)
    factor_axis(panel, "y", (limits[0], limits[1] * ROOM_FOR_WORDS))
    panel.plot(limits, limits, color=style.GREY, linewidth=0.6, linestyle=":", zorder=1)
    panel.axhspan(BEYOND, limits[1] * ROOM_FOR_WORDS, color="#F6DADD", linewidth=0, zorder=0)
    margin = f"{100 * protocol.ROOFLINE_MARGIN:g} % below the {floor}"
    what = "implausible" if floor == "hard floor" else "for review"
    panel.text(0.02, 0.985, f"{margin}: {what}", transform=panel.transAxes, ha="left", va="top", fontsize=SMALL_PT)
    for name in generators:
        mine = [(p.baseline * share, p.candidate * share) for p, share in there if p.generator == name]
        if mine:
            xs, ys = zip(*mine)
            panel.plot(
                *(xs, ys, markers[name]), color=colours[name], markersize=2.4, alpha=0.55, markeredgewidth=0, zorder=2
            )
    for marker, is_odd in (("o", _listed), ("x", _implausible)):
        odd = [(p.baseline * share, p.candidate * share) for p, share in there if is_odd(p)]
        if odd:
            xs, ys = zip(*odd)
            panel.plot(
                xs, ys, marker, color=ODD_COLOUR, markerfacecolor="none", markersize=5.5, linestyle="none", zorder=3
            )


def _listed(p: Point) -> bool:
    return p.below_floor and not p.implausible


def _implausible(p: Point) -> bool:
    return p.implausible


def _odd_handles(found: Sequence[Point]) -> list[Line2D]:
    listed, implausible = (sum(map(test, found)) for test in (_listed, _implausible))
    shown = (("o", f"winner below the floor ({listed})"), ("x", f"implausible claim ({implausible})"))
    return [
        Line2D([], [], color=ODD_COLOUR, markerfacecolor="none", marker=marker, linestyle="none", label=label)
        for marker, label in shown
    ]
