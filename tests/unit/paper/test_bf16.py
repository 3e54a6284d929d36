"""The bf16 control by hand: a run in bf16 beside its fp32 run, on all problems and on those that both solve."""

import dataclasses

import pytest
from hand_made import SETTINGS, arms, cells, make, sample

from kbverified.paper import table
from kbverified.paper.topics import bf16

PROBLEMS = [f"level1_{i}" for i in range(1, 9)] + ["level2_1"]
FP32 = [sample(f"level1_{i}", speedups=arms(1.0, 0.5, 2.0)) for i in range(1, 7)]
FP32 += [sample("level1_7", tolerance=5e-3, speedups=arms(9.0))]  # beyond 1e-3
FP32 += [sample("level1_8", speedups=arms(1.0, 0.5, 2.0))]
HALF = [
    sample(f"level1_{i}", tolerance=5e-3, dtype="bf16", speedups={"naive": 8.0, "matched": 8.0}) for i in range(3, 7)
]
HALF += [sample("level1_7", dtype="bf16", speedups={"naive": 0.5, "matched": 0.5})]
HALF += [sample("level1_1", tolerance=0.5, dtype="bf16", speedups={"matched": 99.0})]  # beyond 1e-2
HALF += [sample("level1_2", dtype="bf16")]  # solved, no time


@pytest.fixture(scope="module")
def inputs():
    return make({"one": FP32, "one-bf16": HALF}, PROBLEMS)


def test_each_run_has_its_own_tau_and_all_its_problems(inputs):
    row = cells(bf16.tables(inputs)[0], level="1")
    assert (row["generator"], row["problems"]) == ("one", 8)
    assert row["correctness_fp32"].value == pytest.approx(7 / 8)
    assert row["correctness_bf16"].value == pytest.approx(6 / 8)
    assert row["correctness_difference"].value == pytest.approx(-1 / 8)  # two problems lost and one won
    assert row["correctness_difference"].low < -1 / 8 < 0 < row["correctness_difference"].high
    assert (row["correct_speedup_fp32"].value, row["n_fp32"]) == (pytest.approx(2.0), 7)
    assert (row["correct_speedup_bf16"].value, row["n_bf16"]) == (pytest.approx((8**4 * 0.5) ** (1 / 5)), 5)


def test_on_common_problems(inputs):
    row = cells(bf16.tables(inputs)[1], level="1")
    assert (row["solved_both"], row["solved_fp32_only"], row["solved_bf16_only"]) == (5, 2, 1)
    assert row["common"] == 4  # level1_2 has no time in bf16
    assert row["correct_speedup_fp32"].value == pytest.approx(2.0)
    assert row["correct_speedup_bf16"].value == pytest.approx(8.0)
    assert row["factor"].value == pytest.approx(4.0)
    assert row["factor"].low is None and "only 4 problems" in row["factor"].why_null
    empty = cells(bf16.tables(inputs)[1], level="2")
    assert (empty["common"], empty["factor"].value) == (0, None)


def test_runs_are_paired_by_name():
    half = [sample("level1_1", dtype="bf16", speedups=arms(1.0))]
    inputs = make({"a": FP32, "b": FP32, "b-bf16": half, "c-bf16": half, "-bf16": half, "bf16": half}, PROBLEMS)
    assert bf16.counterparts(inputs) == {"b-bf16": "b", "c-bf16": None, "-bf16": None, "bf16": None}
    made = bf16.tables(inputs)[0]
    assert "Without an fp32 run of the same name less -bf16: c-bf16, -bf16, bf16." in made.note
    assert "Without a bf16 run: a." in made.note
    alone = cells(made, generator="c-bf16", level="1")
    assert alone["correctness_bf16"].value == pytest.approx(1 / 8)
    assert (alone["correctness_fp32"].value, alone["correctness_fp32"].why_null) == (None, bf16.NO_PAIR)
    assert cells(bf16.tables(inputs)[1], generator="c-bf16", level="1")["solved_both"] is None
    outcomes = {f.outcome for f in bf16.findings(inputs) if "c-bf16" in f.sentence}
    assert outcomes == {"not measured"}


def test_renamed_references_are_left_to_the_study_of_them():
    inputs = dataclasses.replace(make({"one": FP32, "one-bf16": HALF}, PROBLEMS), references=("one-bf16",))
    assert bf16.tables(inputs)[0].rows == () and bf16.counterparts(inputs) == {}


def test_another_fp32_generator_of_that_name_is_no_bf16_run():
    inputs = make({"one": FP32, "one-bf16": FP32}, PROBLEMS)
    assert bf16.counterparts(inputs) == {}


@pytest.mark.parametrize(("headline", "arm"), [("matched", "matched"), ("naive", "naive"), ("published", "matched")])
def test_an_arm_that_bf16_has_not_is_replaced_and_named(headline, arm):
    settings = SETTINGS.model_copy(update={"headline_arm": headline})
    made = bf16.tables(make({"one": FP32, "one-bf16": HALF}, PROBLEMS, settings=settings))[0]
    row = cells(made, level="1")
    assert row["correct_speedup_fp32"].value == pytest.approx({"matched": 2.0, "naive": 1.0}[arm])
    assert f"Conditions: {arm} arm" in made.note


def test_findings_are_decided_by_their_intervals():
    problems = [f"level1_{i}" for i in range(1, 41)]
    wobble = [1 + 0.01 * ((7 * i) % 11 - 5) for i in range(40)]
    fp32 = [sample(p, speedups=arms(1.0)) for p in problems]
    half = [
        sample(p, tolerance=0.5 if i % 2 else 1e-3, dtype="bf16", speedups={"matched": 1.5 * wobble[i]})
        for i, p in enumerate(problems)
    ]
    found = bf16.findings(make({"one": fp32, "one-bf16": half}, problems))
    fewer, in_fp32, in_bf16, factor = found
    assert (fewer.outcome, fewer.estimate.value) == ("holds", pytest.approx(-0.5))
    assert "less that in fp32" in fewer.sentence and "is below 0.0 %" in fewer.sentence
    assert in_fp32.outcome == "does not hold" and in_bf16.outcome == "holds"
    assert factor.outcome == "holds" and factor.estimate.value == pytest.approx(1.5, rel=0.02)
    assert all("tau 0.001 (fp32) and tau 0.01 (bf16)" in f.conditions for f in found)
    few = bf16.findings(make({"one": fp32[:6], "one-bf16": half[:6]}, problems))
    assert few[0].outcome == "undecided"


@pytest.mark.parametrize("rows", [{}, {"one": []}, {"one": FP32}])
def test_without_a_bf16_generator_everything_says_why(rows):
    inputs = make(rows, PROBLEMS)
    for made in bf16.tables(inputs):
        assert made.rows == () and bf16.NO_BF16 in table.to_markdown(made)
    (said,) = bf16.findings(inputs)
    assert said.outcome == "not measured" and "no generator of dtype bf16" in said.sentence
    figures = bf16.figures(inputs)
    assert sorted(figures) == ["bf16", "bf16_problems"]
    assert all(
        "no generator of dtype bf16" in f.axes[0].texts[0].get_text().replace("\n", " ") for f in figures.values()
    )


def test_figures_show_both_runs_and_the_common_problems(inputs):
    figures = bf16.figures(inputs)
    level1 = figures["bf16"].axes[0]
    points = [container.lines[0].get_xdata()[0] for container in level1.containers]
    assert points == pytest.approx([7 / 8, 6 / 8])
    (dots,) = [line for line in figures["bf16_problems"].axes[0].get_lines() if line.get_linestyle() == "None"]
    assert list(dots.get_xdata()) == [2.0] * 4 and list(dots.get_ydata()) == [8.0] * 4


def test_a_suite_in_which_only_one_run_has_candidates():
    half = [sample("level1_1", dtype="bf16", suite="other", speedups=arms(1.0))]
    inputs = make({"one": FP32, "one-bf16": half}, PROBLEMS, suites=("kb", "other"))
    made = bf16.tables(inputs)[0]
    assert {row[0] for row in made.rows} == {"other"}
    assert {row[2] for row in made.rows} == {"one-bf16"}
    assert {f.outcome for f in bf16.findings(inputs)} == {"not measured"}
