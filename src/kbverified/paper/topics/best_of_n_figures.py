"""Curves over the number of samples, a panel per generator: up to what every problem has, and no further."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from kbverified.leaderboard.model import Estimate
from kbverified.paper import style
from kbverified.paper.axes import BAND_ALPHA, band, broken_line, empty, factor_axis, factor_limits, panels, spread
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import several_suites
from kbverified.paper.topics.best_of_n_curve import NOTHING, ROUND_KS, Curve, best_of, whole_suites
from kbverified.paper.topics.best_of_n_selection import selection

POINTS_MAX = 30
DARK = "#333333"


def passing(inputs: PaperInputs) -> Figure:
    """pass@k under the headline and the standard test, and how often the fastest by the standard test is right."""
    made, shown = _panels(inputs, "active problems (%)")
    c = inputs.leaderboard.conditions
    standard = {(x.generator, x.scope.suite): x for x in whole_suites(inputs, c.headline_arm, "standard")}
    for axes, curve in shown:
        ks = points(curve)
        _marked(axes, ks, [best_of(curve, k).passing for k in ks], _colour(curve, inputs), 100.0)
        claimed = [best_of(standard[curve.generator, curve.scope.suite], k).passing.value for k in ks]
        broken_line(axes, ks, claimed, style.GREY, "--", 100.0)
        broken_line(axes, ks, [selection(curve, k).taken_right.value for k in ks], DARK, ":", 100.0)
        axes.set_ylim(0, 103)
    names = (f"pass@k, {c.headline_test} test", "standard test", "fastest by the standard test is right")
    _legend(made, shown, inputs, names)
    return made


def speedup(inputs: PaperInputs) -> Figure:
    """Correct Speedup of the best of k, what is claimed without our tests, and with the reference to fall back on."""
    made, shown = _panels(inputs, f"speedup\n({inputs.leaderboard.conditions.headline_arm} arm)")
    drawn: list[float] = []
    for axes, curve in shown:
        ks = points(curve)
        found = [best_of(curve, k).speedup for k in ks]
        _marked(axes, ks, found, _colour(curve, inputs))
        drawn += spread(found)
        kept = [best_of(curve, k).kept.value for k in ks]
        claimed = [selection(curve, k).claimed.value for k in ks]
        broken_line(axes, ks, kept, style.GREY, "--")
        broken_line(axes, ks, claimed, DARK, ":")
        drawn += [value for value in (*kept, *claimed) if value is not None]
    for axes, _ in shown:
        factor_axis(axes, "y", factor_limits(drawn))
    names = ("Correct Speedup", "or the reference, all problems", "fastest by the standard test, as claimed")
    _legend(made, shown, inputs, names)
    return made


def points(curve: Curve) -> list[int]:
    """Every k that all problems have, thinned out where there are many."""
    n = curve.fewest
    step = -(-n // POINTS_MAX)
    return sorted({1, n} | {k for k in ROUND_KS if k <= n} | set(range(step, n + 1, step))) if n else []


def _colour(curve: Curve, inputs: PaperInputs) -> str:
    return style.colours(inputs.generators)[curve.generator]


def _marked(axes: Axes, ks: Sequence[int], found: Sequence[Estimate], colour: str, scale: float = 1.0) -> None:
    """A band, with marks where few k would otherwise be a short line, or none."""
    band(axes, ks, found, colour, scale)
    there = [(k, scale * e.value) for k, e in zip(ks, found, strict=True) if e.value is not None]
    axes.plot([k for k, _ in there], [value for _, value in there], "o", color=colour, markersize=2.5)


def _panels(inputs: PaperInputs, label: str) -> tuple[Figure, list[tuple[Axes, Curve]]]:
    found = whole_suites(inputs)
    if not found:
        return style.blank(NOTHING), []
    ncols = min(4, len(found))
    nrows = -(-len(found) // ncols)
    made, axes = style.figure(
        min(2, len(found)), (1.1 if len(found) == 1 else 0.7) + 1.45 * nrows, nrows, ncols, squeeze=False, sharey=True
    )
    most = max(curve.fewest for curve in found)
    shown = list(zip(panels(axes, len(found)), found, strict=True))
    for i, (one, curve) in enumerate(shown):
        if i + ncols >= len(found):
            one.set_xlabel("samples k")
        if i % ncols == 0:
            one.set_ylabel(label)
        suite = f"\n{curve.scope.suite}" if several_suites(inputs) else ""
        one.set_title(f"{curve.generator}{suite}", fontsize=7.5)
        _samples_axis(one, most)
        if not curve.fewest:
            empty(one, "no active problem has a candidate")
    return made, shown


def _samples_axis(axes: Axes, most: int) -> None:
    """Logarithmic beyond ten samples; whole numbers in any case."""
    if most > 10:
        axes.set_xscale("log")
    ticks = (
        [k for k in ROUND_KS if k < most] + [most] if most <= 10 else [k for k in (1, 2, 5, *ROUND_KS[5:]) if k <= most]
    )
    axes.set_xlim((0.9, 1.1 * most) if most > 10 else (0.8, max(most, 2) + 0.2))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _legend(
    made: Figure, shown: Sequence[tuple[Axes, Curve]], inputs: PaperInputs, names: tuple[str, str, str]
) -> None:
    """One legend for all panels: ``names`` of the solid, the dashed and the dotted line."""
    if not shown:
        return
    one = len(shown) == 1
    colour = _colour(shown[0][1], inputs) if one else "black"
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=colour, marker="o", markersize=2.5, label=names[0]),
        Line2D([], [], color=style.GREY, linestyle="--", label=names[1]),
        Line2D([], [], color=DARK, linestyle=":", label=names[2]),
        Patch(facecolor=colour, alpha=BAND_ALPHA, label=f"{100 * inputs.settings.confidence:g} % interval"),
    ]
    made.legend(handles=handles, loc="outside upper center", ncols=1 if one else 4)
