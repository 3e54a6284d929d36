"""A/A: which generators it is of, whose numbers it takes, and what it says where there is none."""

from __future__ import annotations

import math

import pytest
from hand_made import inputs, row

from kbverified.paper import build
from kbverified.paper.topics import aa


def repeat(problem: str, sample: int, default: float | None, tf32: float | None, half: float = 0.005):
    """A renamed reference: its ratios by mode, each with an interval of that half-width (logs); None is unstable."""
    columns = {"matched_from": "time-tf32" if tf32 else None}
    for stage, arm, ratio in (("time_fp32", "naive", default), ("time_tf32", "matched", tf32)):
        columns[f"{stage}_verdict"] = "pass" if ratio else "unstable"
        if ratio:
            ends = (ratio * math.exp(-half), ratio * math.exp(half))
            columns |= {f"speedup_{arm}": ratio} | dict(zip((f"speedup_{arm}_low", f"speedup_{arm}_high"), ends))
    return row("refs", problem, sample, **columns)


@pytest.fixture(scope="module")
def rows():
    """Seven problems of level 1, two repeats each, and one of level 2. In mode default all cover 1 but those of one
    problem, which lie at 1.02; in mode tf32 nothing of level 2 has a time."""
    found = [
        repeat(f"level1_{i}", s, 1.02 if i == 1 else 1.004, 0.98 if s else 1.001) for i in range(1, 8) for s in (0, 1)
    ]
    return [*found, repeat("level2_1", 0, 0.999, None), row("model", "level1_1", speedup_matched=2.0)]


def cells(found) -> dict[tuple[str, str], dict[str, object]]:
    (table,) = aa.tables(found)
    return {(r[1], r[2]): dict(zip([c.name for c in table.columns], r)) for r in table.rows}


def test_each_mode_and_level_by_hand(rows):
    found = cells(inputs(rows, references=["refs"]))
    assert list(found) == [(mode, level) for mode in ("default", "tf32") for level in ("1", "2", "all")]
    level1 = found["default", "1"]
    assert (level1["n_repeats"], level1["n_problems"], level1["n_unstable"], level1["n_known"]) == (14, 7, 0, 14)
    assert level1["within_1"].value == pytest.approx(12 / 14) and level1["within_3"].value == 1.0
    assert level1["within_1"].n == 14
    # One problem of seven fails to cover, with both repeats: bootstrap over seven, not over fourteen.
    assert level1["coverage"].value == pytest.approx(6 / 7) and level1["coverage"].low <= 5 / 7
    assert level1["mean_ratio"].value == pytest.approx(math.exp((math.log(1.02) + 6 * math.log(1.004)) / 7))
    assert level1["mean_ratio"].n == 7
    assert level1["furthest"] == pytest.approx(1.02)
    tf32 = found["tf32", "1"]
    assert tf32["coverage"].value == pytest.approx(7 / 14) == tf32["within_1"].value
    assert tf32["within_3"].low == pytest.approx(0.025 ** (1 / 7)), "all hit: exact over seven problems"
    empty = found["tf32", "2"]
    assert (empty["n_repeats"], empty["n_unstable"], empty["n_known"]) == (1, 1, 0)
    assert empty["coverage"].value is None and empty["furthest"] is None
    assert found["default", "2"]["coverage"].low is None, "one problem has no interval"


def test_only_named_generators_count(rows):
    labelled = [{**r, "static_labels": "renamed reference"} for r in rows]
    assert aa.found(inputs(labelled)).keys() == set(), "a source that looks like a reference is no A/A by itself"
    assert aa.found(inputs(rows, references=["refs", "not there"])).keys() == {"refs"}


def test_findings_name_mode_and_say_where_intervals_are_too_narrow():
    many = [repeat(f"level1_{i}", 0, 1.001, 1.02) for i in range(1, 101)]
    found = {(f.sentence.split(" in mode ")[1].split()[0], f.threshold): f for f in
             aa.findings(inputs(many, references=["refs"]))}  # fmt: skip
    # Of 100 all cover 1: at least 96.4 % do in truth (0.025 ** 0.01). And of 100 none does.
    assert found["default", 0.95].outcome == "does not hold" and "not below 95.0 %" in found["default", 0.95].sentence
    assert found["tf32", 0.95].outcome == "holds" and "0.0 % [0.0 %, 3.6 %], n 100" in found["tf32", 0.95].sentence
    assert "naive arm" in found["default", None].conditions and "matched arm" in found["tf32", None].conditions


@pytest.mark.parametrize(
    ("rows", "references", "why"),
    [
        ([], ["refs"], "no generator of this run consists of renamed references (paper.references names refs)"),
        ([row("model", "level1_1")], [], "paper.references names none"),
        ([row("refs", "level1_1")], ["refs"], "no timing record of refs"),
    ],
)
def test_without_such_a_generator_everything_says_why(tmp_path, rows, references, why):
    found = inputs(rows, ["level1_1"], references=references)
    build.write_topic(build.topic("aa"), found, tmp_path)
    text = (tmp_path / "tables/aa.md").read_text()
    assert "Not measured: no " in text and why in text
    (said,) = aa.findings(found)
    assert said.outcome == "not measured" and why in said.sentence


def test_the_figure_counts_what_lies_beyond_its_edge(rows):
    far = repeat("level1_8", 0, 1.2, 1.0)
    figure = aa.figures(inputs([*rows, far], references=["refs"]))["aa"]
    above = figure.axes[0]
    assert [text.get_text() for text in above.texts] == ["1 further off"]
    curve = next(line for line in above.lines if line.get_label() == "level 1")
    assert max(curve.get_ydata()) == 100 and max(curve.get_xdata()) == 5
