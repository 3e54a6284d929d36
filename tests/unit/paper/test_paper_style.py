"""Figures: the same bytes for the same data in another process, no date, no font of the machine's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified.paper import style

DRAW = """
import sys
from pathlib import Path
from kbverified.paper import style
figure, axes = style.figure(2, 2.5, 1, 2, sharey=True)
for i in range(3):
    axes[0].plot([1, 2, 3], [i, i + 1, i * i], label=f"generator {i}")
    axes[1].scatter([1e-3 * (i + 1), 1], [i, 1], marker=style.MARKERS[i])
axes[1].set_xscale("log")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
style.save(figure, Path(sys.argv[1]), "drawn")
"""


def drawn(folder: Path, **environment: str) -> dict[str, bytes]:
    subprocess.run([sys.executable, "-c", DRAW, str(folder)], check=True, env=os.environ | environment)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_another_process_draws_the_same_bytes(tmp_path: Path) -> None:
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.family: serif\nsavefig.dpi: 33\naxes.grid: False\n")
    first = drawn(tmp_path / "a", PYTHONHASHSEED="1")
    second = drawn(tmp_path / "b", PYTHONHASHSEED="2", MATPLOTLIBRC=str(rc), SOURCE_DATE_EPOCH="1000000000")
    assert sorted(first) == ["drawn.pdf", "drawn.png"]
    digests = [{n: hashlib.sha256(b).hexdigest() for n, b in files.items()} for files in (first, second)]
    assert digests[0] == digests[1]
    assert b"CreationDate" not in first["drawn.pdf"] and b"DejaVuSans" in first["drawn.pdf"]


@pytest.mark.parametrize(("columns", "width_in"), [(1, 3.35), (2, 7.0)])
def test_a_figure_has_the_width_of_its_columns(tmp_path: Path, columns: int, width_in: float) -> None:
    figure, axes = style.figure(columns, 2.0)
    axes.plot([0, 1], [0, 1])
    png = style.save(figure, tmp_path, "x")[1].read_bytes()
    assert int.from_bytes(png[16:20], "big") == round(width_in * style.PNG_DPI)  # IHDR: width, height
    assert int.from_bytes(png[20:24], "big") == round(2.0 * style.PNG_DPI)


def test_generators_are_told_apart_by_colour_and_then_by_marker() -> None:
    names = [f"g{i}" for i in range(16)]
    colours, markers = style.colours(names), style.markers(names)
    assert len(set(colours.values())) == 8
    assert len({(colours[n], markers[n]) for n in names}) == 16
    assert style.colours(names[:7]) == {n: colours[n] for n in names[:7]}
