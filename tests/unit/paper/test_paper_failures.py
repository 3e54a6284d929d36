"""Failure modes on tables small enough to be counted by hand."""

from __future__ import annotations

import pytest
from hand_made import EVERY, inputs, row

from kbverified.paper import build
from kbverified.paper.topics import failures

D1, D2, D3, D4 = EVERY
WRONG_3 = (1e-6, 0.5, 1e-6, 1e-6)


@pytest.fixture(scope="module")
def small():
    """Generator g on six problems of level 1, and one of level 2; h has one sample.

    level1_1: wrong under x3 alone, twice: the problem is caught by it alone.
    level1_2: one sample wrong under x3 alone, one right: the sample is caught, the problem is not.
    level1_3: wrong under x3 and negation: neither is alone.
    level1_4: a crash under x0.01, the last distribution never met: other failure, not reached, alone by nobody.
    level1_5: does not compile: reached nowhere.
    level1_6: negation does not apply; right.
    level2_1: not judged (a fault of the machine), and one right sample.
    """
    rows = [
        row("g", "level1_1", 0, "wrong_value", standard="pass", tolerances=WRONG_3, failed=[D2]),
        row("g", "level1_1", 1, "wrong_value", standard="pass", tolerances=WRONG_3, failed=[D2]),
        row("g", "level1_2", 0, "wrong_value", standard="pass", tolerances=WRONG_3, failed=[D2]),
        row("g", "level1_2", 1),
        row("g", "level1_3", 0, "wrong_value", standard="pass", tolerances=(1e-6, 0.5, 1e-6, 0.5), failed=[D2, D4]),
        row("g", "level1_4", 0, "crash", standard="pass", tolerances=(1e-6, 1e-6, None, None), failed=[D3]),
        row("g", "level1_5", 0, "compile_error", tolerances=(None,) * 4),
        row("g", "level1_6", 0, tolerances=(1e-6, 1e-6, 1e-6, None), applicable=(D1, D2, D3)),
        row("g", "level2_1", 0, None, tolerances=(None,) * 4, why_null_verdict_hidden="no hidden-gate record"),
        row("g", "level2_1", 1),
        row("h", "level1_1", 0),
    ]
    return inputs(rows)


def of(found, generator, level, distribution):
    (one,) = [f for f in found if (f.generator, f.level, f.distribution) == (generator, level, distribution)]
    return one


def test_problems_and_samples_are_counted_apart(small):
    found = failures.counts(small)
    one = of(found, "g", 1, D2)
    # Reached by the samples of problems 1, 1, 2, 2, 3, 4, 6: of seven samples four fail; of five problems two have no
    # sample that passes (1 and 3).
    assert (one.samples.n, one.samples.value) == (7, pytest.approx(4 / 7))
    assert (one.problems.n, one.problems.value, one.n_problems_failed) == (5, pytest.approx(2 / 5), 2)
    assert (one.n_wrong_value, one.n_other_failure, one.n_not_reached) == (4, 0, 1)


def test_a_crash_fails_where_it_happened_and_what_came_after_is_not_reached(small):
    found = failures.counts(small)
    crashed, after = of(found, "g", 1, D3), of(found, "g", 1, D4)
    assert (crashed.n_wrong_value, crashed.n_other_failure, crashed.n_not_reached) == (0, 1, 1)
    # Negation: problem 6 does not have it, 4 and 5 ended before; 1, 1, 2, 2, 3 met it, and 3 fails.
    assert (after.samples.n, after.n_wrong_value, after.n_other_failure, after.n_not_reached) == (5, 1, 0, 2)
    assert (after.problems.n, after.n_problems_failed) == (3, 1)


def test_alone_means_that_all_others_pass(small):
    found = failures.counts(small)
    assert {d: of(found, "g", 1, d).n_alone_samples for d in EVERY} == {D1: 0, D2: 3, D3: 0, D4: 0}
    assert {d: of(found, "g", 1, d).n_alone_problems for d in EVERY} == {D1: 0, D2: 1, D3: 0, D4: 0}
    one = of(found, "g", 1, D2).alone_problems
    assert (one.n, one.value) == (6, pytest.approx(1 / 6)), "of all six problems, reached or not"
    assert one.low is not None and one.low <= 1 / 6 <= one.high


def test_where_one_distribution_applies_nothing_is_caught_alone():
    one = row("g", "level1_1", 0, "wrong_value", tolerances=(0.5, None, None, None), failed=[D1], applicable=(D1,))
    found = failures.counts(inputs([one]))
    assert of(found, "g", 1, D1).n_problems_failed == 1 and of(found, "g", 1, D1).n_alone_samples == 0
    assert of(found, "g", 1, D2).samples.value is None


def test_what_was_not_judged_is_in_no_count(small):
    one = of(failures.counts(small), "g", 2, D1)
    assert (one.samples.n, one.samples.value, one.n_not_reached) == (1, 0.0, 0)
    whole = of(failures.counts(small), "g", None, D2)
    assert (whole.samples.n, whole.problems.n) == (8, 6), "levels together"


def test_hardened_laws_are_told_apart_beyond_the_hidden_test():
    h1 = "h1_scale_and_offset"  # the one law of these audits

    def sample(i: int, hardened: str | None, failed: str | None, hidden: str = "pass") -> dict:
        return row("g", f"level1_{i}", 0, hidden, hardened=hardened, failed_hardened=failed)

    rows = [
        sample(1, "wrong_value", h1),
        sample(2, "wrong_value", f"{h1}, weights"),
        sample(3, "pass", None),
        sample(4, None, None),  # undecidable, or no trials: in no denominator
        sample(5, "wrong_value", D2, hidden="wrong_value"),  # failed before: a distribution is no law
    ]
    found = {x.law: x for x in failures.hardened(inputs(rows))}
    assert list(found) == [h1, "weights"]
    assert [(x.samples.n, x.n_failed, x.n_alone) for x in found.values()] == [(3, 2, 1), (3, 1, 0)]
    assert found[h1].samples.value == pytest.approx(2 / 3)


def test_verdicts_are_the_leaderboards_counts(small):
    (table,) = [t for t in failures.tables(small) if t.name == "verdicts_hidden"]
    assert [c.header for c in table.columns] == ["verdict", "g", "h"]
    assert table.rows == (
        ("pass", 3, 1),
        ("wrong_value", 4, 0),
        ("compile_error", 1, 0),
        ("crash", 1, 0),
        ("not judged", 1, 0),
        ("all candidates", 10, 1),
    )


def test_findings_say_what_each_distribution_alone_keeps_from_being_solved(small):
    found = failures.findings(small)
    assert [next(d for d in EVERY if d in f.sentence) for f in found] == [D2, D3, D4], "the original is not hidden"
    # g and h together: of seven problems x3 alone keeps g from solving one; that h solves it changes nothing for g.
    by_x3 = found[0]
    assert by_x3.outcome == "undecided" and "14.3 % [0.0 %" in by_x3.sentence
    assert "some of the 2 fp32 generators" in by_x3.sentence
    assert "7 active problems of s with a judged sample" in by_x3.conditions and "tau 0.001" in by_x3.conditions


def test_a_distribution_that_surely_catches_problems_holds_and_dtypes_stand_apart():
    def wrong(i: int) -> dict:
        return {"hidden": "wrong_value", "tolerances": WRONG_3, "failed": [D2]} if i <= 15 else {}

    rows = [row("g", f"level1_{i}", **wrong(i)) for i in range(1, 31)]
    rows += [row("half", f"level1_{i}", dtype="bf16", tau=1e-2) for i in range(1, 31)]
    found = failures.findings(inputs(rows))
    assert [f.outcome for f in found[:3]] == ["holds", "undecided", "undecided"], "x 3; and two that caught nothing"
    assert "problems that g would solve" in found[0].sentence and "50.0 %" in found[0].sentence
    assert ["bf16" in f.conditions for f in found] == [False] * 3 + [True] * 3
    assert [f.outcome for f in found[3:]] == ["undecided"] * 3


def test_nothing_at_all_gives_tables_and_a_figure_that_say_so(tmp_path):
    for empty in (inputs([], ["level1_1"], generators=["g"]), inputs([], ["level1_1"])):
        build.write_topic(build.topic("failures"), empty, tmp_path)
        text = (tmp_path / "tables/failures_by_distribution.md").read_text()
        assert "No generator has a candidate." in text
        assert "no generator has a candidate" in (tmp_path / "tables/failures_hardened.md").read_text()
    assert failures.findings(empty) == []


def test_the_figure_shows_every_share_with_its_interval(small):
    figure = failures.figures(small)["failures_by_distribution"]
    left, right, *_ = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["g", "h"]
    widths = [round(patch.get_width(), 4) for patch in right.patches]
    # Four distributions, of each g and h: of g's samples that reached it 0 of 8, 4 of 8, 1 of 8, 1 of 6 fail.
    assert widths == [0, 0, 50.0, 0, 12.5, 0, round(100 / 6, 4), 0]
    assert len(right.lines) == 3, "an interval takes six problems: g has four under negation, h has one"
