"""How every figure looks, and how it is saved: the same data give the same bytes.

Fonts are those that matplotlib brings along, no file has a date, and the layout is rounded before it is drawn.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from kbverified.records.files import write_bytes

ONE_COLUMN_IN = 3.35
TWO_COLUMNS_IN = 7.0
PNG_DPI = 200

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Told apart under the common colour blindnesses: Okabe and Ito, "Color Universal Design", 2008, its yellow, which is
too light on white, replaced by a brown."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#767676"

_RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "axes.linewidth": 0.6,
    "axes.prop_cycle": cycler(color=COLOURS),
    "figure.dpi": 100.0,
    "figure.constrained_layout.use": False,  # a figure of ``figure`` has it; another's layout is its own
    "pdf.fonttype": 42,  # letters stay letters
    "pdf.compression": 6,
    "svg.hashsalt": "kbverified",
    "text.usetex": False,
}


def apply() -> None:
    """Make this the style of the process, whatever a matplotlibrc says. Call it before a figure is begun."""
    matplotlib.use("Agg")
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_RC)


def figure(
    columns: int = 1, height_in: float = 2.4, nrows: int = 1, ncols: int = 1, **subplots: Any
) -> tuple[Figure, Any]:
    """A figure one or two of a paper's columns wide, and its axes as ``plt.subplots`` gives them.

    ``subplots``: further arguments of ``Figure.subplots``, as ``sharex`` or ``squeeze``.
    """
    apply()
    made = Figure(figsize=(TWO_COLUMNS_IN if columns > 1 else ONE_COLUMN_IN, height_in), layout="constrained")
    return made, made.subplots(nrows, ncols, **subplots)


def blank(why: str) -> Figure:
    """A figure for which there is no data: it says why."""
    made, axes = figure(height_in=0.8)
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(why, 50), ha="center", va="center", color=GREY, transform=axes.transAxes)
    return made


def colours(generators: Sequence[str]) -> dict[str, str]:
    """One colour per generator, by its place: the same in every figure of a paper."""
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(generators)}


def markers(generators: Sequence[str]) -> dict[str, str]:
    """One marker per generator; beyond eight generators it tells apart those of one colour."""
    return {name: MARKERS[(i + i // len(COLOURS)) % len(MARKERS)] for i, name in enumerate(generators)}


def save(made: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name``.pdf and .png into a folder and return their paths. The figure's layout is final afterwards."""
    apply()
    _freeze_layout(made)
    paths = []
    for ending, metadata in (
        ("pdf", {"Creator": "kbverified", "Producer": None, "CreationDate": None}),
        ("png", {"Software": None}),
    ):
        file = io.BytesIO()
        made.savefig(file, format=ending, dpi=PNG_DPI, metadata=metadata)
        paths.append(folder / f"{name}.{ending}")
        write_bytes(paths[-1], file.getvalue())
    return paths


def _freeze_layout(made: Figure) -> None:
    """Lay out once and keep it, rounded: the solver behind constrained layout orders its terms by addresses, so that
    its last digits, and its answer at another resolution, are not the data's."""
    made.draw_without_rendering()
    if made.get_layout_engine() is not None:
        made.set_layout_engine("none")
    for axes in made.axes:
        box = axes.get_position()
        axes.set_position((round(box.x0, 5), round(box.y0, 5), round(box.width, 5), round(box.height, 5)))
