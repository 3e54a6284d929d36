"""The figure of an A/A study: how the ratios are spread, and how many intervals contain 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbverified.aa import ARM_OF_STAGE, Repeat, Study, known
from kbverified.keys import STAGE_MODES
from kbverified.leaderboard.model import Estimate
from kbverified.paper import style
from kbverified.paper.scopes import level_title

SHOWN_PERCENT = 5.0
"""Ratios further from 1 than this are counted at the edge, and said."""
LINES = ("-", "--", "-.", ":")


def ratios_and_coverage(
    repeats: Mapping[str, Sequence[Repeat]],
    coverage: Mapping[str, Sequence[tuple[Study, Estimate]]],
    why_none: str | None,
    confidence: float,
) -> Figure:
    """A column per mode: above, the cumulated distribution of ratios per level; below, the intervals that contain 1."""
    made, axes = style.figure(columns=2, height_in=4.2, nrows=2, ncols=len(ARM_OF_STAGE), height_ratios=(3, 2))
    if why_none:
        for one in axes.flat:
            one.set_axis_off()
        made.text(0.5, 0.5, "not measured: no renamed references in this run", ha="center", va="center")
        return made
    for (above, below), stage in zip(axes.T, ARM_OF_STAGE):
        curves = _curves(repeats, stage)
        above.set_title(f"mode {STAGE_MODES[stage]}")
        _distribution(above, curves)
        rows = {
            _label(name, study.level, coverage): share
            for name, several in coverage.items()
            for study, share in several
            if study.stage == stage
        }
        _coverage(below, rows)
        below.axvline(100 * confidence, color=style.GREY, linewidth=0.8, linestyle="--")
    axes[0, 0].set_ylabel("share of repeats (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if not handles:
        handles, labels = axes[0, -1].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=min(max(len(labels), 1), 4))
    return made


def _curves(repeats: Mapping[str, Sequence[Repeat]], stage: str) -> dict[str, list[float]]:
    """Ratios less 1, in percent, by the name of their curve: the level, and the generator where there are several."""
    found: dict[str, list[float]] = {}
    for name, several in repeats.items():
        mine = [one for one in several if one.stage == stage]
        for level in sorted({one.level for one in several}):
            label = _label(name, level, repeats)
            ratios = [one.ratio for one in known(mine) if one.level == level]
            found[label] = [100 * (ratio - 1.0) for ratio in ratios if ratio is not None]
    return found


def _label(name: str, level: int | None, generators: Mapping[str, object]) -> str:
    return level_title(level) if len(generators) == 1 else f"{name}, {level_title(level)}"


def _distribution(axes: Axes, curves: Mapping[str, Sequence[float]]) -> None:
    beyond = 0
    axes.axvspan(-1, 1, color="#EEEEEE", zorder=0, linewidth=0)
    axes.axvline(0, color=style.GREY, linewidth=0.6)
    for i, (label, values) in enumerate(curves.items()):
        beyond += sum(abs(value) > SHOWN_PERCENT for value in values)
        x = np.clip(np.sort(np.asarray(values, dtype=np.float64)), -SHOWN_PERCENT, SHOWN_PERCENT)
        y = 100 * np.arange(1, len(x) + 1) / max(len(x), 1)
        axes.step(
            [-SHOWN_PERCENT, *x, SHOWN_PERCENT], [0, *y, y[-1] if len(y) else 0], where="post", label=label,
            color=style.COLOURS[i % len(style.COLOURS)], linestyle=LINES[i % len(LINES)],
        )  # fmt: skip
    axes.set_xlim(-SHOWN_PERCENT, SHOWN_PERCENT)
    axes.set_ylim(0, 102)
    axes.set_xlabel("ratio less 1 (%), shaded: within 1 %")
    if beyond:
        axes.text(0.02, 0.97, f"{beyond} further off", transform=axes.transAxes, va="top", fontsize=6.5)


def _coverage(axes: Axes, rows: Mapping[str, Estimate]) -> None:
    for y, share in enumerate(rows.values()):
        if share.value is None:
            axes.text(1, y, "not measured", va="center", fontsize=6, color=style.GREY)
            continue
        if share.low is not None and share.high is not None:
            axes.plot([100 * share.low, 100 * share.high], [y, y], color="black", linewidth=1.0)
        axes.plot(100 * share.value, y, "o", color="black", markersize=3.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlim(0, 102)
    axes.set_xlabel("intervals that contain 1 (%), dashed: nominal")
    axes.grid(axis="y", visible=False)
