"""Tolerances by hand: eight problems, some of which only a looser tau solves, and the mean that rises without them."""

import math

import pytest
from hand_made import D2, SETTINGS, arms, cells, make, sample

from kbverified import leaderboard
from kbverified.kernel_table import frame
from kbverified.metrics import share
from kbverified.paper import table
from kbverified.paper.topics import tolerance, tolerance_figures, tolerance_sweep
from kbverified.tau_sweep import needed_tau, rows_at

PROBLEMS = [f"level1_{i}" for i in range(1, 9)] + ["level2_1"]
LOOSE, TIGHT = 1e-3, 1e-4
SLOW = 0.25
ROWS = [
    *[sample(f"level1_{i}", speedups=arms(1.0, 2.0)) for i in range(1, 7)],  # stay, 1x
    sample("level1_7", tolerance=5e-4, speedups=arms(SLOW, 0.5)),  # leaves
    sample("level1_8", tolerance=1e-6, hidden=5e-4, speedups=arms(SLOW, 0.5)),  # leaves the hidden test alone
    sample("level1_1", 1, tolerance=2e-4, speedups=arms(4.0, 8.0)),  # the winner, as long as it is let
    sample("level2_1", tolerance=TIGHT, speedups=arms(1.0)),  # exactly at tau: passes
]


@pytest.fixture(scope="module")
def inputs():
    return make({"one": ROWS}, PROBLEMS)


def test_every_tau_by_hand(inputs):
    made = tolerance.tables(inputs)[0]
    loose, tight = (cells(made, level="1", tau=tau) for tau in (LOOSE, TIGHT))
    assert (loose["correctness"].value, tight["correctness"].value) == (1.0, 0.75)
    assert (loose["problems"], loose["timed"], tight["timed"]) == (8, 8, 6)
    assert loose["correct_speedup"].value == pytest.approx((4 * SLOW**2) ** (1 / 8))
    assert tight["correct_speedup"].value == pytest.approx(1.0)
    assert tight["correct_speedup"].value > loose["correct_speedup"].value  # and nothing became faster
    assert loose["common_correct_speedup"].value == pytest.approx(4 ** (1 / 6))
    assert tight["common_correct_speedup"].value == pytest.approx(1.0)
    assert (loose["common"], tight["common"]) == (6, 6)
    assert cells(made, level="2", tau=TIGHT)["correctness"].value == 1.0
    every = cells(made, level="all", tau=TIGHT)
    assert (every["problems"], every["timed"]) == (9, 7)


def test_both_taus_and_the_published_arm_have_the_same_place(inputs):
    headline, published, _ = tolerance.tables(inputs)
    assert [row[:5] for row in headline.rows] == [row[:5] for row in published.rows]
    assert [row[4] for row in headline.rows] == [LOOSE, TIGHT] * 3
    assert cells(published, level="1", tau=TIGHT)["correct_speedup"].value == pytest.approx(2.0)
    assert all("tau 0.001 and 0.0001, fp32" in f.conditions for f in tolerance.findings(inputs))


def test_what_tightening_does_falls_into_selection_and_the_same_problems(inputs):
    made = tolerance.tables(inputs)[2]
    row = cells(made, level="1")
    assert (row["tau_from"], row["tau_to"], row["dropped"]) == (LOOSE, TIGHT, 2)
    assert row["change"].value == pytest.approx((4 * SLOW**2) ** (-1 / 8))
    assert row["change_same"].value == pytest.approx(4 ** (-1 / 6))
    assert row["selection"].value == pytest.approx(4 ** (1 / 6) / (4 * SLOW**2) ** (1 / 8))
    assert row["change"].value == pytest.approx(row["change_same"].value * row["selection"].value)
    assert row["selection"].value > 1 > row["change_same"].value


def test_the_table_at_the_settings_tau_is_the_leaderboards(inputs):
    made = tolerance.tables(inputs)[0]
    entry = inputs.leaderboard.entry("one", "kb", None, "matched", "hidden")
    row = cells(made, level="all", tau=LOOSE)
    assert (row["correctness"], row["correct_speedup"]) == (entry.correctness, entry.correct_speedup)


def test_the_table_at_another_tau_is_the_leaderboard_that_would_be_built_there(inputs):
    moved = frame(rows_at(inputs.rows["one"], {"fp32": TIGHT}, inputs.problems))
    settings = SETTINGS.model_copy(update={"tau": {"fp32": TIGHT, "bf16": 1e-2}})
    entry = leaderboard.build({"one": moved}, inputs.problems, settings).entry("one", "kb", None, "matched", "hidden")
    row = cells(tolerance.tables(inputs)[0], level="all", tau=TIGHT)
    assert (row["correctness"], row["correct_speedup"]) == (entry.correctness, entry.correct_speedup)


def test_curves_are_the_same_verdicts_at_any_tau(inputs):
    (part,) = tolerance_sweep.whole_suites(inputs)
    taus = tolerance_figures.grid(part.taus)
    assert taus[0] == 1e-5 and taus[-1] == 1e-2 and {LOOSE, TIGHT} <= set(taus) and taus == sorted(set(taus))
    rows = inputs.rows["one"]
    for tau, best in zip(taus, tolerance_sweep.curve(rows, part.scope, "matched", "hidden", taus)):
        at = rows_at(rows, {"fp32": tau}, inputs.problems)
        passing = {row["problem"] for row in at if row["verdict_hidden"] == "pass"}
        assert best.solved == tuple(problem in passing for problem in part.scope.problems)
        fastest = [
            max((r["speedup_matched"] for r in at if r["problem"] == p and r["verdict_hidden"] == "pass"), default=None)
            for p in part.scope.problems
        ]
        assert best.column("speedup_matched") == fastest


def test_nothing_beyond_the_tolerance_up_to_which_candidates_were_timed():
    assert tolerance_figures.grid((5e-2, 1e-3))[-1] == 0.1
    assert tolerance_figures.grid((1e-3,))[0] == pytest.approx(1e-4)


def test_a_rise_that_is_selection_is_called_so():
    """Forty problems; the slow quarter leaves at the tighter tau, with some noise in all of them."""
    problems = [f"level1_{i}" for i in range(1, 41)]
    noise = [math.exp(0.02 * ((7 * i) % 11 - 5)) for i in range(40)]
    rows = [
        sample(p, tolerance=5e-4 if i % 4 == 0 else 1e-6, speedups=arms((0.25 if i % 4 == 0 else 0.9) * noise[i]))
        for i, p in enumerate(problems)
    ]
    whole, selection, same = tolerance.findings(make({"one": rows}, problems))
    assert (whole.outcome, selection.outcome) == ("holds", "holds")
    assert whole.estimate == selection.estimate and "is above 1.00" in whole.sentence  # all of the rise is selection
    assert "dropping problems alone" in selection.sentence and "is above 1.00" in selection.sentence
    assert same.outcome == "undecided"  # the same samples win: nothing differs


def test_a_fall_on_the_same_problems_is_called_so():
    """On every problem a faster sample is lost at the tighter tau; some noise in how much faster."""
    problems = [f"level1_{i}" for i in range(1, 41)]
    faster = [2.0 * math.exp(0.02 * ((7 * i) % 11 - 5)) for i in range(40)]
    rows = [sample(p, 0, speedups=arms(1.0)) for p in problems]
    rows += [sample(p, 1, tolerance=5e-4, speedups=arms(speed)) for p, speed in zip(problems, faster)]
    whole, selection, same = tolerance.findings(make({"one": rows}, problems))
    assert (whole.outcome, whole.estimate) == ("holds", same.estimate) and "is below 1.00" in whole.sentence
    assert selection.sentence.startswith("No problem that one solves is dropped from tau 0.001 to 0.0001")
    assert (same.outcome, same.estimate.value) == ("holds", pytest.approx(0.5, rel=0.01))
    assert "on the same problems" in same.sentence and "is below 1.00" in same.sentence


def test_without_a_dropped_problem_there_is_no_selection():
    rows = [sample(p, speedups=arms(2.0)) for p in PROBLEMS]
    inputs = make({"one": rows}, PROBLEMS)
    (said,) = [f for f in tolerance.findings(inputs) if "No problem" in f.sentence]
    assert said.outcome == "does not hold"
    assert cells(tolerance.tables(inputs)[2], level="1")["selection"].value == 1.0


def test_bf16_has_its_own_list_moved_by_the_factor_between_the_tolerances():
    half = [sample("level1_1", tolerance=5e-3, dtype="bf16", speedups=arms(2.0))]
    inputs = make({"one": ROWS, "half": half}, PROBLEMS, taus=(3e-4, 1e-5))
    assert tolerance_sweep.taus_of(inputs, "fp32") == (
        1e-3,
        3e-4,
        1e-5,
    )  # the one that decides verdicts is always there
    assert tolerance_sweep.taus_of(inputs, "bf16") == (1e-2, 3e-3)  # 1e-4 is more exact than bf16 is
    made = tolerance.tables(inputs)[0]
    assert cells(made, generator="half", level="1", tau=1e-2)["timed"] == 1
    tight = cells(made, generator="half", level="1", tau=3e-3)
    assert (tight["timed"], tight["correct_speedup"].value) == (0, None)
    assert "bf16: 0.01, 0.003" in made.note


def test_common_problems_are_those_of_every_tau_of_a_longer_list():
    rows = [*ROWS[:5], sample("level1_6", tolerance=5e-5, speedups=arms(1.0)), *ROWS[6:]]
    made = tolerance.tables(make({"one": rows}, PROBLEMS, taus=(1e-3, 1e-4, 1e-5)))[0]
    found = [cells(made, level="1", tau=tau) for tau in (1e-3, 1e-4, 1e-5)]
    assert [row["timed"] for row in found] == [8, 6, 5]
    assert [row["common"] for row in found] == [5, 5, 5]


def test_a_failure_that_no_tolerance_mends_is_solved_at_none():
    rows = [
        sample("level1_1", verdict="crash"),
        sample("level1_2", speedups=arms(2.0), **{f"critical_tolerance_{D2}": 3e-4}),
    ]
    inputs = make({"one": rows}, PROBLEMS[:2])
    assert [needed_tau(row) for row in inputs.rows["one"]] == [None, 3e-4]
    made = tolerance.tables(inputs)[0]
    assert [cells(made, level="all", tau=tau)["correctness"].value for tau in (LOOSE, TIGHT)] == [0.5, 0.0]


def test_a_winner_that_is_timed_under_tf32_beyond_tau_is_counted():
    rows = [sample("level1_1", speedups=arms(2.0), matched_from="time-tf32", time_tf32_critical_tolerance=5e-4)]
    headline, published, _ = tolerance.tables(make({"one": rows}, PROBLEMS[:1]))
    assert [cells(headline, level="1", tau=tau)["timed_beyond"] for tau in (LOOSE, TIGHT)] == [0, 1]
    assert cells(published, level="1", tau=TIGHT)["timed_beyond"] == 0  # it times another launch


@pytest.mark.parametrize("rows", [{}, {"none": []}])
def test_without_candidates_everything_says_why(rows):
    inputs = make(rows, PROBLEMS)
    for made in tolerance.tables(inputs):
        assert made.rows == () and tolerance_sweep.NOTHING in table.to_markdown(made)
    assert sorted(tolerance.figures(inputs)) == ["tolerance_correctness", "tolerance_speedup"]
    (said,) = tolerance.findings(inputs)
    assert said.outcome == "not measured"


def test_nothing_solved_and_nothing_timed():
    rows = [sample(p, tolerance=0.5) for p in PROBLEMS[:3]] + [sample("level2_1")]
    inputs = make({"one": rows}, PROBLEMS)
    row = cells(tolerance.tables(inputs)[0], level="1", tau=LOOSE)
    assert (row["correctness"].value, row["correct_speedup"].value, row["timed"]) == (0.0, None, 0)
    assert cells(tolerance.tables(inputs)[2], level="1")["selection"].value is None
    assert {f.outcome for f in tolerance.findings(inputs)} == {"not measured"}
    assert tolerance.figures(inputs)["tolerance_speedup"].axes


def test_the_figures_lines_are_the_shares(inputs):
    made = tolerance.figures(inputs)["tolerance_correctness"]
    lines = {line.get_linestyle(): line for line in made.axes[0].get_lines()[:2]}
    (part,) = tolerance_sweep.whole_suites(inputs)
    for style, test in (("-", "hidden"), ("--", "standard")):
        for tau, shown in zip(*lines[style].get_data()):
            solved = {r["problem"] for r in inputs.rows["one"] if (needed_tau(r, test) or 1.0) <= tau}
            assert shown == pytest.approx(100 * share([p in solved for p in part.scope.problems]))
