"""The distribution of speedups by hand: what is not solved is part of it."""

import pytest
from hand_made import cells, inputs, won

from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics import speedups

PROBLEMS = [f"level1_{i}" for i in range(1, 6)]
ROWS = [
    won("g", "level1_1", 0, (4.0, 1.0, 2.0)),
    won("g", "level1_2", 0, (0.5, 0.25, 0.5)),
    won("g", "level1_3", 0, (2.0, 1.0, None)),  # solved, not timed in the matched arm
    won("g", "level1_4", 0, 9.0, verdict="wrong_value"),
    # level1_5: no candidate
]


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(ROWS, PROBLEMS)


def curve(made, arm):
    (found,) = [c for c in speedups.curves(made) if c.arm == arm]
    return found


@pytest.mark.parametrize(
    ("arm", "without", "steps"),
    [
        ("naive", 2 / 5, ([0.5, 2.0, 4.0], [3 / 5, 4 / 5, 1.0])),
        ("matched", 3 / 5, ([0.5, 2.0], [4 / 5, 1.0])),
    ],
)
def test_a_curve_by_hand(made, arm, without, steps):
    found = curve(made, arm)
    assert found.without == pytest.approx(without)
    assert found.steps() == (steps[0], pytest.approx(steps[1]))


def test_a_curve_is_one_less_fast_p(made):
    row = cells(speedups.tables(made)[0], arm="naive")
    assert (row["n_active"], row["n_solved"], row["n_timed"]) == (5, 3, 3)
    xs, shares = curve(made, "naive").steps()
    for p in (0.5, 2.0):
        assert row[f"fast_{p:g}"].value == pytest.approx(1 - shares[xs.index(p)])
    assert cells(speedups.tables(made)[0], arm="matched")["n_timed"] == 2


def test_the_figure_starts_at_the_share_without_a_speedup(made):
    naive, _, matched = speedups.distribution(made).axes
    for panel, percents in ((naive, [40.0, 60.0, 80.0, 100.0, 100.0]), (matched, [60.0, 80.0, 100.0, 100.0])):
        (steps,) = [line for line in panel.get_lines() if line.get_drawstyle() == "steps-post"]
        assert list(steps.get_ydata()) == pytest.approx(percents)
        assert steps.get_xdata()[0] == pytest.approx(panel.get_xlim()[0])


def test_an_arm_that_was_not_measured_is_no_curve_of_unsolved_problems():
    made = inputs([won("g", "level1_1", 0, (2.0, None, 2.0))], PROBLEMS)
    assert {c.arm for c in speedups.curves(made)} == {"naive", "matched"}
    panel = speedups.distribution(made).axes[1]
    assert "not in the record" in panel.texts[0].get_text().replace("\n", " ")


def test_a_generator_that_solves_nothing_is_a_line_at_the_top():
    made = inputs([won("g", "level1_1", 0, 2.0, verdict="crash")], PROBLEMS)
    assert [(c.without, c.speedups) for c in speedups.curves(made)] == [(1.0, ())] * 3


def test_the_difference_between_arms_by_hand():
    names = [f"level1_{i}" for i in range(1, 9)]
    # Faster in the naive arm on six of eight, in the matched one on two of these.
    rows = [won("g", p, 0, (2.0 if i < 6 else 0.5, 1.0, 2.0 if i < 2 else 0.5)) for i, p in enumerate(names)]
    (found,) = speedups.findings(inputs(rows, names))
    assert found.estimate.value == pytest.approx(6 / 8 - 2 / 8)
    assert found.outcome == "holds"
    assert found.estimate.low > 0
