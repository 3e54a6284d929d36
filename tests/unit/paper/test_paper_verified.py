"""The verified leaderboard by hand: which problems count, who is first, and what is decided."""

import math

import pytest
from hand_made import cells, inputs, won

from kbverified.keys import ProblemKey
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics import verified

PROBLEMS = ["level1_1", "level1_2", "level1_3", "level1_4", "level2_1", "level2_2"]
# matched          1_1       1_2  1_3    1_4           2_1   2_2
#   late           4 (of 2)  1    wrong  no candidate  0.25  solved, not timed
#   early          1         2    8      wrong         wrong wrong
ROWS = [
    won("late", "level1_1", 0, 2.0),
    won("late", "level1_1", 1, 4.0),
    won("late", "level1_2", 0, 1.0),
    won("late", "level1_3", 0, 99.0, verdict="wrong_value"),
    won("late", "level2_1", 0, 0.25),
    won("late", "level2_2", 0, None),
    won("early", "level1_1", 0, 1.0),
    won("early", "level1_2", 0, 2.0),
    won("early", "level1_3", 0, 8.0),
    *(won("early", p, 0, 9.0, verdict="crash") for p in ("level1_4", "level2_1", "level2_2")),
]


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(ROWS, PROBLEMS)


def table(made: PaperInputs, name: str):
    return {t.name: t for t in verified.tables(made)}[name]


@pytest.mark.parametrize(
    ("generator", "level", "active", "without", "samples", "solved", "timed", "mean", "faster"),
    [
        ("late", "1", 4, 1, 4, 2, 2, math.sqrt(4.0), 1 / 4),
        ("late", "2", 2, 0, 2, 2, 1, 0.25, 0.0),
        ("late", "all", 6, 1, 6, 4, 3, 1.0, 1 / 6),  # (4 * 1 * 0.25) ** (1/3)
        ("early", "1", 4, 0, 4, 3, 3, 16 ** (1 / 3), 2 / 4),
        ("early", "2", 2, 0, 2, 0, 0, None, 0.0),
        ("early", "all", 6, 0, 6, 3, 3, 16 ** (1 / 3), 2 / 6),
    ],
)
def test_rows_by_hand(made, generator, level, active, without, samples, solved, timed, mean, faster):
    row = cells(table(made, "verified_fp32"), generator=generator, level=level)
    counts = ("n_problems", "n_without_candidate", "n_samples", "n_solved", "n_timed")
    assert tuple(row[name] for name in counts) == (active, without, samples, solved, timed)
    assert row["correctness"].value == pytest.approx(solved / active)
    assert row["correct_speedup"].value == (pytest.approx(mean) if mean else None)
    assert row["fast_1"].value == pytest.approx(faster)
    assert row["fast_1"].low <= faster <= row["fast_1"].high


def test_the_ranking_is_by_a_share_of_all_problems(made):
    """late has the larger mean on level 2 and solves more; early is faster than the baseline on more problems."""
    assert [row[0] for row in table(made, "verified_fp32").rows] == ["early"] * 3 + ["late"] * 3


def test_fast_p_is_strict(made):
    row = cells(table(made, "verified_fast_p"), generator="early", level="all")
    assert [row[f"fast_{p}"].value for p in ("0.5", "1", "1.5", "2")] == pytest.approx([3 / 6, 2 / 6, 2 / 6, 1 / 6])


def test_the_common_problems_are_those_that_all_solved(made):
    rows = table(made, "verified_common").rows
    assert [row[2:4] for row in rows] == [("early", 2), ("late", 2)]
    assert [row[4].value for row in rows] == pytest.approx([math.sqrt(2.0), 2.0])


def test_renamed_references_narrow_no_common_problems(made):
    """Timed on one problem, as an A/A study may be, they would leave that one alone to all."""
    beside = inputs([*ROWS, won("refs", "level1_1", 0, 1.0)], PROBLEMS, references=["refs"])
    assert table(beside, "verified_common").rows == table(made, "verified_common").rows
    (board,) = [x for x in made.leaderboard.common if (x.arm, x.test) == ("matched", "hidden")]
    assert verified.common_of_models(made) == [board], "without references it is the leaderboard's"


def test_neighbours_are_compared_on_the_problems_of_both(made):
    (found,) = [f for f in verified.findings(made) if "over that of" in f.sentence]
    assert found.estimate.value == pytest.approx(math.sqrt((1 / 4) * (2 / 1)))
    assert (found.estimate.n, found.outcome) == (2, "undecided")  # two problems have no interval
    assert "the speed of early over that of late" in found.sentence


def test_dtypes_have_tables_of_their_own_and_are_not_compared():
    made = inputs([*ROWS, won("half", "level1_1", 0, 2.0, dtype="bf16", tau=1e-2)], PROBLEMS)
    assert {row[0] for row in table(made, "verified_fp32").rows} == {"early", "late"}
    assert {row[0] for row in table(made, "verified_bf16").rows} == {"half"}
    assert not [f for f in verified.findings(made) if "half" in f.sentence and "over that of" in f.sentence]
    (mean,) = [f for f in verified.findings(made) if "Correct Speedup of half on all levels" in f.sentence]
    assert "tau 0.01, bf16" in mean.conditions


def test_an_absent_dtype_and_a_generator_of_none_are_named():
    made = inputs(ROWS, PROBLEMS, generators=["silent"])
    assert "No generator was evaluated in bf16" in table(made, "verified_bf16").note
    assert "silent (nothing evaluated)" in table(made, "verified_fp32").note


def test_renamed_references_are_no_model(made):
    apart = inputs([*ROWS, won("same", "level1_1", 0, 1.0)], PROBLEMS, references=["same"])
    assert {row[0] for row in table(apart, "verified_fp32").rows} == {"early", "late"}
    assert "Left to the A/A study: same" in table(apart, "verified_fp32").note
    assert not [f for f in verified.findings(apart) if "same" in f.sentence.split()]


@pytest.mark.parametrize(
    ("speeds", "outcome", "words"),
    [
        ((0.5, 0.6, 0.5, 0.7, 0.5, 0.6, 0.5, 0.8), "holds", "is below 1.00"),
        ((0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0), "undecided", "Whether the Correct Speedup"),
        ((1.5, 2.0, 1.5, 2.0, 1.5, 2.0, 1.5, 2.0), "does not hold", "is not below 1.00"),
        ((0.5, 0.6, None, None, None, None, None, None), "undecided", "only 2 problems"),
        ((None,) * 8, "not measured", "was not measured: not in the record"),
    ],
)
def test_a_claim_is_worded_as_its_interval_allows(speeds, outcome, words):
    names = [f"level1_{i}" for i in range(1, 9)]
    rows = [won("g", p, 0, s) for p, s in zip(names, speeds)]
    found = next(
        f for f in verified.findings(inputs(rows, names)) if "Correct Speedup of g on all levels" in f.sentence
    )
    assert found.outcome == outcome
    assert words in found.sentence
    assert "matched arm, hidden test, tau 0.001, fp32, 8 active problems" in found.conditions


def test_a_degenerate_problem_is_in_no_denominator():
    import record_factory as make

    keys = [ProblemKey("s", f"level1_{i}") for i in (1, 2, 3)]
    audits = {key: make.problem(key, degenerate=key.number == 3) for key in keys}
    row = verified.tables(inputs([won("g", "level1_1", 0, 2.0), won("g", "level1_3", 0, 9.0)], audits))[0].rows[-1]
    assert row[3] == 2
    assert row[9].value == pytest.approx(2.0)
