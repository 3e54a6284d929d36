"""The figure of failure modes: share failed on each distribution, problems and samples apart."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbverified import protocol
from kbverified.leaderboard.model import Estimate
from kbverified.paper import style
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics.failures_counts import Failures

SHORT = {"d1_original": "original", "d2_scale_3": "times 3", "d3_scale_0.01": "times 0.01", "d4_negate": "negated"}
"""The distributions as figures call them."""
HATCHES = ("", "////", "....", "xxxx")
"""A second sign beside the colour."""
_BAR = 0.2


def by_distribution(found: Sequence[Failures], inputs: PaperInputs) -> Figure:
    """Bars per generator and distribution with their intervals; all levels, each suite's generators on their own."""
    whole = [one for one in found if one.level is None]
    rows = list(dict.fromkeys((one.suite, one.generator) for one in whole))
    made, (left, right) = style.figure(columns=2, height_in=1.1 + 0.5 * max(len(rows), 1), ncols=2, sharey=True)
    several = len({suite for suite, _ in rows}) > 1
    labels = [f"{generator}\n({suite})" if several else generator for suite, generator in rows]
    for axes, title, field in ((left, "problems", "problems"), (right, "samples", "samples")):
        for i, name in enumerate(protocol.DISTRIBUTIONS):
            shares = {(one.suite, one.generator): getattr(one, field) for one in whole if one.distribution == name}
            _bars(axes, [shares[row] for row in rows], i, SHORT.get(name, name))
        axes.set_title(f"{title} failed")
        axes.set_xlabel("share of those that reached the distribution (%)")
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
    left.set_yticks(range(len(rows)), labels)
    left.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    if not rows:
        left.text(0.5, 0.5, "no candidate", ha="center", va="center", transform=left.transAxes)
    handles, names = left.get_legend_handles_labels()
    made.legend(handles, names, loc="outside lower center", ncols=len(names) or 1)
    return made


def _bars(axes: Axes, shares: Sequence[Estimate], place: int, label: str) -> None:
    at = [row + (place - 1.5) * _BAR for row in range(len(shares))]
    values = [100 * (share.value or 0.0) for share in shares]
    axes.barh(
        at, values, height=_BAR, color=style.COLOURS[place], hatch=HATCHES[place], edgecolor="white", linewidth=0.3,
        label=label,
    )  # fmt: skip
    for y, share in zip(at, shares):
        if share.low is not None and share.high is not None:
            axes.plot([100 * share.low, 100 * share.high], [y, y], color="black", linewidth=0.7, solid_capstyle="butt")
        elif share.value is None:
            axes.text(0, y, " not measured", va="center", fontsize=5.5, color=style.GREY)
