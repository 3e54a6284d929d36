"""The decomposition as stacked bars: a panel per level, a bar per generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kbverified.paper import style
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import place
from kbverified.paper.topics.decomposition import CATEGORIES, HEADERS, NO_FP32, Category, Decomposed, taken_share

_LOOKS: dict[Category, dict[str, Any]] = {
    "tf32_only": {"facecolor": style.COLOURS[0]},
    "hidden_only": {"facecolor": style.COLOURS[4]},
    "both": {"facecolor": style.COLOURS[1]},
    "neither": {"facecolor": "#DDDDDD"},
    "not_timed": {"facecolor": "white", "hatch": "....", "edgecolor": style.GREY},
    "no_pass": {"facecolor": "white", "hatch": "////", "edgecolor": style.GREY},
}
_WHITE_TEXT = ("tf32_only", "both")
_LABEL_FROM = 0.07
"""A segment narrower than this share of the bar has no room for its number."""


def stacked(found: Sequence[Decomposed], inputs: PaperInputs) -> Figure:
    """Shares of active problems, the number of problems in each segment, and the interval of the share taken away."""
    parts = with_panels(found)
    if not parts:
        return style.blank(NO_FP32 if not found else "no active problem")
    bars = max(len(part.fates) for part in parts)
    ncols = min(2, len(parts))
    nrows = -(-len(parts) // ncols)
    made, grid = style.figure(2, nrows * (0.55 + 0.2 * bars) + 0.5, nrows, ncols, squeeze=False, sharex=True)
    for i, axes in enumerate(grid.flat):
        if i >= len(parts):
            axes.set_axis_off()
            continue
        _panel(axes, parts[i], inputs, names=i % ncols == 0)
        if i + ncols >= len(parts):
            axes.set_xlabel("share of active problems (%)")
            axes.tick_params(labelbottom=True)
    used = [c for c in CATEGORIES if any(any(part.category(name, c)) for part in parts for name in part.fates)]
    handles: list[Any] = [Patch(**_LOOKS[c], label=HEADERS[c]) for c in used]
    interval = f"{100 * inputs.settings.confidence:g} % interval of what is taken"
    handles.append(Line2D([], [], color="black", marker="|", markersize=4, linewidth=0.9, label=interval))
    made.legend(handles=handles, loc="outside upper center", ncols=4 if len(handles) > 5 else 5)
    return made


def with_panels(found: Sequence[Decomposed]) -> list[Decomposed]:
    """Those that get a panel: levels and whole suites; a suite of one level once."""
    levels = {part.scope.suite: sum(p.scope.suite == part.scope.suite for p in found) for part in found}
    return [
        part for part in found if part.scope.problems and (part.scope.level is None or levels[part.scope.suite] > 2)
    ]


def _panel(axes: Any, part: Decomposed, inputs: PaperInputs, names: bool) -> None:
    n = len(part.scope.problems)
    for y, name in enumerate(part.fates):
        left = 0.0
        for category in CATEGORIES:
            count = sum(part.category(name, category))
            width = 100.0 * count / n
            if not count:
                continue
            look = {"edgecolor": "white", **_LOOKS[category]}
            axes.barh(y, width, left=left, height=0.72, linewidth=0.5, **look)
            if count / n >= _LABEL_FROM:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if "hatch" in look else None
                colour = "white" if category in _WHITE_TEXT else "black"
                axes.text(left + width / 2, y, str(count), ha="center", va="center", fontsize=6, color=colour, bbox=box)
            left += width
        taken = taken_share(part, name, inputs)
        if taken.value is not None and taken.low is not None and taken.high is not None:
            ends = [[100 * (taken.value - taken.low)], [100 * (taken.high - taken.value)]]
            axes.errorbar(
                [100 * taken.value], [y + 0.27], xerr=ends, fmt="none", ecolor="black", elinewidth=0.9, capsize=1.8
            )
    axes.set_yticks(range(len(part.fates)), list(part.fates) if names else [""] * len(part.fates))
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.grid(False)
    axes.set_title(f"{place(inputs, part.scope.suite, part.scope.level)} ({n} problems)")
