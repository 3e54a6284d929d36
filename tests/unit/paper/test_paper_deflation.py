"""Arms, tests and the fall from before to after, by hand."""

import itertools
import math

import pytest
from hand_made import cells, inputs, won

from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics import arms, deflation, deflation_figures

PROBLEMS = ["level1_1", "level1_2", "level1_3"]
# sample             naive published matched
ROWS = [
    won("g", "level1_1", 0, (8.0, 2.0, 4.0)),
    won("g", "level1_2", 0, (2.0, 0.5, 1.0)),
    won("g", "level1_2", 1, (4.0, 1.0, 2.0), verdict="wrong_value", standard="pass"),  # fails a hidden test
    won("g", "level1_3", 0, (16.0, 1.0, 16.0), verdict="wrong_value", standard="pass"),
]


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(ROWS, PROBLEMS)


def table(topic, made: PaperInputs, name: str):
    return {t.name: t for t in topic.tables(made)}[name]


@pytest.mark.parametrize(
    ("test", "solved", "naive", "published", "matched"),
    [
        # standard: 1_1 of sample 0, 1_2 of sample 1, 1_3
        ("standard", 3, (8 * 4 * 16) ** (1 / 3), (2 * 1 * 1) ** (1 / 3), (4 * 2 * 16) ** (1 / 3)),
        # hidden: 1_1, and 1_2 of sample 0
        ("hidden", 2, math.sqrt(8 * 2), math.sqrt(2 * 0.5), math.sqrt(4 * 1)),
    ],
)
def test_arms_by_hand(made, test, solved, naive, published, matched):
    row = cells(table(arms, made, "arms"), level="all", test=test)
    assert (row["n_problems"], row["n_solved"]) == (3, solved)
    found = [row[f"correct_speedup_{arm}"] for arm in ("naive", "published", "matched")]
    assert [e.value for e in found] == pytest.approx([naive, published, matched])
    assert [row[f"n_{arm}"] for arm in ("naive", "published", "matched")] == [solved] * 3


def test_fast_1_by_hand(made):
    row = cells(table(arms, made, "arms_fast_1"), level="all", test="standard")
    assert [row[f"fast_1_{arm}"].value for arm in ("naive", "published", "matched")] == pytest.approx([1, 1 / 3, 1])


def test_best_of_n_is_chosen_per_arm():
    """One sample is the best in the naive arm, the other in the matched one."""
    rows = [won("g", "level1_1", 0, (8.0, 2.0, 1.0)), won("g", "level1_1", 1, (2.0, 1.0, 4.0))]
    row = cells(table(arms, inputs(rows, ["level1_1"]), "arms"), level="all", test="hidden")
    assert [row[f"correct_speedup_{arm}"].value for arm in ("naive", "published", "matched")] == [8.0, 2.0, 4.0]


def test_without_any_hardened_verdict_its_rows_are_left_out_and_the_note_says_so(made):
    found = table(arms, made, "arms")
    assert {row[4] for row in found.rows} == {"standard", "hidden", "hardened"}
    none = table(arms, inputs([won("g", "level1_1", 0, 1.0, hardened=None)], PROBLEMS), "arms")
    assert {row[4] for row in none.rows} == {"standard", "hidden"}
    assert "No candidate has a verdict of the hardened test" in none.note


def test_stations_and_falls_by_hand(made):
    row = cells(table(deflation, made, "deflation"), level="all")
    before, published, after = 512 ** (1 / 3), 1.0, 2.0
    assert [row[name].value for name in ("before", "published", "after")] == pytest.approx([before, published, after])
    assert (row["n_before"], row["n_published"], row["n_after"]) == (3, 2, 2)
    assert row["fall"].value == pytest.approx(after / before)
    # On 1_1 from 8 to 4, on 1_2 from 4 to 1: 1_3, which the hidden tests take away, says nothing here.
    assert row["fall_shared"].value == pytest.approx(math.sqrt((4 / 8) * (1 / 4)))
    assert (row["n_fall"], row["n_fall_shared"]) == (2, 2)


def test_steps_by_hand_and_their_product(made):
    row = cells(table(deflation, made, "deflation_steps"), level="all")
    means = [512 ** (1 / 3), 2 ** (1 / 3), 128 ** (1 / 3), 2.0]
    steps = [row[name].value for name in ("baseline", "precision", "hidden")]
    assert steps == pytest.approx([b / a for a, b in itertools.pairwise(means)])
    assert math.prod(steps) == pytest.approx(means[-1] / means[0])
    assert row["hidden_shared"].value == pytest.approx(math.sqrt((4 / 4) * (1 / 2)))
    assert row["from_published"].value == pytest.approx(2.0)


def test_the_hardened_step_is_taken_where_hardened_gives_a_verdict():
    rows = [
        won("g", "level1_1", 0, 4.0, hardened="wrong_value"),
        won("g", "level1_1", 1, 1.0),
        won("g", "level1_2", 0, 2.0),
        won("g", "level1_3", 0, 2.0, hardened="wrong_value"),
    ]
    row = cells(table(deflation, inputs(rows, PROBLEMS), "deflation_steps"), level="all")
    assert row["hardened_shared"].value == pytest.approx(math.sqrt((1 / 4) * (2 / 2)))
    assert row["n_hardened_shared"] == 2


def eight(*speeds):
    names = [f"level1_{i}" for i in range(1, 9)]
    return inputs([won("g", p, 0, speeds[i % len(speeds)]) for i, p in enumerate(names)], names)


@pytest.mark.parametrize(
    ("speeds", "outcome"),
    [
        (((2.0, 0.5, 1.0), (3.0, 0.4, 0.9)), "holds"),
        (((1.0, 0.5, 1.1), (1.1, 0.4, 1.0)), "undecided"),
        (((1.0, 0.5, 1.1), (1.0, 0.4, 1.2)), "does not hold"),
        (((None, None, 1.1),), "not measured"),
    ],
)
def test_a_fall_is_claimed_as_its_interval_allows(speeds, outcome):
    fell = [
        f for f in deflation.findings(eight(*speeds)) if "over that before" in f.sentence and "all levels" in f.sentence
    ]
    assert [f.outcome for f in fell] == [outcome] * 2  # over its own problems, and problem by problem
    for found in fell:
        assert ("Whether" in found.sentence) == (outcome == "undecided")


def test_the_published_protocol_is_no_fall_where_the_candidate_was_denied_tf32():
    found = next(f for f in deflation.findings(eight((2.0, 0.5, 1.0), (3.0, 0.4, 0.9))) if "published" in f.sentence)
    assert found.outcome == "does not hold"
    assert found.estimate.value == pytest.approx(math.sqrt((1.0 / 0.5) * (0.9 / 0.4)))


def test_identical_arms_are_no_certainty():
    found = arms.findings(eight((2.0, 2.0, 2.0), (3.0, 3.0, 3.0)))
    assert {f.outcome for f in found} == {"undecided"}
    assert all("nothing differs" in f.sentence for f in found)


def test_bf16_has_no_arms_to_compare_and_says_so():
    rows = [won("g", "level1_1", 0, (2.0, None, 2.0), dtype="bf16", tau=1e-2, matched_from="time-fp32")]
    made = inputs(rows, PROBLEMS)
    assert {f.outcome for f in arms.findings(made)} == {"not measured"}
    assert all("bf16: precision modes have no effect" in f.sentence for f in arms.findings(made))
    row = cells(table(deflation, made, "deflation"), level="all")
    assert (row["published"].value, row["after"].value) == (None, 2.0)


def test_the_figure_shows_the_three_stations(made):
    made_figure = deflation_figures.deflation(made)
    whole = made_figure.axes[1]
    assert whole.get_title() == "all levels"
    xs = {round(float(x), 6) for line in whole.get_lines() if line.get_marker() in "oD" for x in line.get_xdata()}
    assert xs == {8.0, 1.0, 2.0}
    labels = {text.get_text() for text in made_figure.legends[0].get_texts()}
    assert labels == {"before (naive+standard)", "published (published+hidden)", "after (matched+hidden)"}


def test_an_arm_is_held_against_the_matched_one():
    naive, published = arms.findings(eight((2.0, 0.5, 1.0), (3.0, 0.4, 0.9)))
    assert naive.estimate.value == pytest.approx(math.sqrt(2.0 * (3.0 / 0.9)))
    assert published.estimate.value == pytest.approx(math.sqrt(0.5 * (0.4 / 0.9)))
    assert (naive.outcome, published.outcome) == ("holds", "holds")
    assert "is above 1.00" in naive.sentence and "is below 1.00" in published.sentence


def test_the_same_on_every_shared_problem_is_no_certainty():
    found = deflation.findings(eight((2.0, 1.0, 2.0), (3.0, 1.0, 3.0)))
    same = next(f for f in found if "problem by problem" in f.sentence)
    assert (same.estimate.value, same.estimate.low, same.outcome) == (1.0, None, "undecided")


def test_renamed_references_do_not_fall():
    made = inputs([*ROWS, won("same", "level1_1", 0, 1.0)], PROBLEMS, references=["same"])
    assert {row[0] for row in table(deflation, made, "deflation").rows} == {"g"}
    assert {row[0] for row in table(arms, made, "arms").rows} == {"g"}
    assert not [f for f in (*deflation.findings(made), *arms.findings(made)) if "same " in f.sentence]


def test_suites_are_never_pooled():
    rows = [won("g", "level1_1", 0, (4.0, 1.0, 2.0)), won("g", "level1_1", 0, (9.0, 1.0, 3.0), suite="t")]
    found = table(deflation, inputs(rows), "deflation")
    one, other = (cells(found, suite=suite, level="all") for suite in ("s", "t"))
    assert (one["before"].value, one["fall"].value) == (4.0, 0.5)
    assert (other["before"].value, other["fall"].value) == (9.0, pytest.approx(1 / 3))
    assert one["fall_shared"].value == 0.5
