"""Against the roofline by hand: fractions, scores, and what lies below a floor."""

import math

import pytest
from hand_made import cells, inputs, won

from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import suites_of
from kbverified.paper.topics import roofline, roofline_figures
from kbverified.paper.topics.roofline_points import points

PROBLEMS = [f"level1_{i}" for i in range(1, 5)]


def at(baseline, candidate, *, hard=0.5, score=None, below=False, implausible=False, stage="time_tf32"):
    """Columns of a record with a floor of 2 ms and a hard floor of ``hard`` times that."""
    return {
        f"{stage}_floor_ms": 2.0,
        f"{stage}_hard_floor_ms": 2.0 * hard,
        f"{stage}_baseline_roofline": baseline,
        f"{stage}_candidate_roofline": candidate,
        f"{stage}_sol_score": score,
        f"{stage}_below_floor": below,
        f"{stage}_implausible": implausible,
    }


ROWS = [
    won("g", "level1_1", 0, 2.0, **at(0.25, 0.5, score=0.75)),
    won("g", "level1_1", 1, 1.0, **at(0.25, 0.25, score=0.5)),  # verified, no winner
    won("g", "level1_2", 0, 4.0, **at(0.5, 2.0, hard=0.4, score=1.0, below=True)),  # a winner below the floor
    won("g", "level1_3", 0, None, **at(0.5, 8.0, score=1.0, below=True, implausible=True)),  # no speedup, no winner
    won("g", "level1_4", 0, None, verdict="wrong_value", **at(0.5, 9.0, below=True, implausible=True)),  # not verified
]


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(ROWS, PROBLEMS)


def test_the_table_by_hand(made):
    row = cells(roofline.tables(made)[0], level="all")
    assert (row["n_timed"], row["n_sol_score"], row["n_roofline"]) == (2, 2, 2)
    assert row["sol_score"].value == pytest.approx((0.75 + 1.0) / 2)
    assert row["candidate_roofline"].value == pytest.approx(math.sqrt(0.5 * 2.0))
    assert row["baseline_roofline"].value == pytest.approx(math.sqrt(0.25 * 0.5))
    assert (row["n_below_floor"], row["n_implausible"]) == (1, 1)  # implausible is not counted twice


def test_points_are_winners_and_implausible_claims(made):
    (scope,) = [per_test["hidden"] for per_test in suites_of(made)]
    found = {(p.problem, p.sample): p for p in points(made, scope, "g")}
    assert set(found) == {("level1_1", 0), ("level1_2", 0), ("level1_3", 0)}
    assert [p.implausible for p in found.values()].count(True) == 1
    assert found[("level1_2", 0)].hard_share == pytest.approx(0.4)


def test_a_bf16_claim_is_read_where_the_matched_arm_was_taken_from():
    rows = [
        won(
            "g", "level1_1", 0, 2.0, dtype="bf16", tau=1e-2, matched_from="time-fp32", **at(0.1, 0.2, stage="time_fp32")
        )
    ]
    assert cells(roofline.tables(inputs(rows, PROBLEMS))[0], level="all")["candidate_roofline"].value == 0.2


def markers(panel, marker):
    lines = [line for line in panel.get_lines() if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data())]


def test_the_figure_has_both_floors(made):
    floor, hard = roofline_figures.roofline(made).axes
    assert markers(floor, "x") == [(0.5, 8.0)]
    assert markers(hard, "x") == [pytest.approx((0.25, 4.0))]
    assert set(markers(floor, "o")) == {(0.25, 0.5), (0.5, 2.0), (0.5, 8.0)}  # the winner below the floor twice
    assert markers(floor, "o").count((0.5, 2.0)) == 2
    assert sorted(set(markers(hard, "o"))) == [
        pytest.approx((0.125, 0.25)),
        pytest.approx((0.2, 0.8)),
        pytest.approx((0.25, 4.0)),
    ]
    limits = floor.get_ylim()
    assert limits[0] < 0.25 and limits[1] > 8.0
    assert math.isclose(roofline_figures.BEYOND, 1 / 0.9)


def test_kernels_that_move_nothing_have_no_hard_floor():
    made = inputs([won("g", "level1_1", 0, 2.0, **at(0.25, 0.5, hard=0.0, score=0.6))], PROBLEMS)
    floor, hard = roofline_figures.roofline(made).axes
    assert "(1 kernels)" in floor.get_title()
    assert "no winner has a hard floor" in hard.texts[0].get_text().replace("\n", " ")


def test_findings_count_and_decide(made):
    by_words = {words: [f for f in roofline.findings(made) if words in f.sentence] for words in ("SOL", "claim a time")}
    (score,), (counts,) = by_words.values()
    assert score.outcome == "undecided"  # two problems
    assert "1 claim a time below the hard floor" in counts.sentence and "1 one below the floor only" in counts.sentence


@pytest.mark.parametrize(("score", "outcome"), [(0.7, "holds"), (0.3, "does not hold"), (None, "not measured")])
def test_a_score_is_held_against_the_baselines_speed(score, outcome):
    names = [f"level1_{i}" for i in range(1, 9)]
    rows = [won("g", p, 0, 1.0, **at(0.4, 0.4, score=score and score + 0.01 * i)) for i, p in enumerate(names)]
    found = next(f for f in roofline.findings(inputs(rows, names)) if "SOL" in f.sentence)
    assert found.outcome == outcome


def test_without_floors_nothing_is_said_of_them():
    found = roofline.findings(inputs([won("g", "level1_1", 0, 2.0)], PROBLEMS))
    assert {f.outcome for f in found} == {"not measured"}
