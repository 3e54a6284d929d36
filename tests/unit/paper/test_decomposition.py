"""What takes the apparent win away, on tables small enough to be counted by hand."""

import pytest
from hand_made import arms, cells, make, sample

from kbverified.paper import table
from kbverified.paper.topics import decomposition
from kbverified.paper.topics.decomposition import ANY, UNTIMED, Fate, fate_of, together

PROBLEMS = [f"level1_{i}" for i in range(1, 7)] + ["level2_1", "level2_2"]
HALVED, KEPT = arms(2.0, 1.0), arms(2.0, 1.01)  # exactly half is a drop by at least 50 %
ONE = [
    sample("level1_1", speedups=HALVED),  # TF32 only
    sample("level1_2", speedups=KEPT, hidden=0.5),  # hidden only
    sample("level1_3", speedups=HALVED, hidden=0.5),  # both
    sample("level1_4", speedups=KEPT),  # neither
    sample("level1_5", verdict="compile_error"),  # nothing to take
    sample("level1_6", speedups=arms(2.0) | {"published": None}),  # unknown
    sample("level2_1", 0, speedups=KEPT),
    sample("level2_1", 1, speedups=arms(1.0, 1.0), hidden=0.5),  # a slower sample, and it counts: hidden only
    sample("level2_2", tolerance=0.5, speedups=HALVED),  # fails the standard test: nothing to take
]
TWO = [
    sample("level1_2", speedups=HALVED),  # with ONE: both
    sample("level1_4", speedups=KEPT),
    sample("level1_5", speedups=KEPT),  # with ONE: neither
    sample("level1_6", speedups=HALVED),  # with ONE: TF32 only
]


@pytest.fixture(scope="module")
def inputs():
    return make({"one": ONE, "two": TWO}, PROBLEMS)


def counts(inputs, level, generator):
    _, counted, _ = decomposition.tables(inputs)
    row = cells(counted, level=level, generator=generator)
    assert row["problems"] == sum(row[c] for c in decomposition.CATEGORIES)
    return [row[c] for c in (*decomposition.CATEGORIES, "tf32", "hidden")]


# tf32 only, hidden only, both, neither, unknown, no standard pass; tf32 in all, hidden in all
@pytest.mark.parametrize(
    ("level", "generator", "expected"),
    [
        ("1", "one", [1, 1, 1, 1, 1, 1, 2, 2]),
        ("2", "one", [0, 1, 0, 0, 0, 1, 0, 1]),
        ("all", "one", [1, 2, 1, 1, 1, 2, 2, 3]),
        ("all", "two", [2, 0, 0, 2, 0, 4, 2, 0]),
        ("1", ANY, [2, 0, 2, 2, 0, 0, 4, 2]),
        ("all", ANY, [2, 1, 2, 2, 0, 1, 4, 3]),
    ],
)
def test_problems_are_counted_by_what_takes_the_win(inputs, level, generator, expected):
    assert counts(inputs, level, generator) == expected


def test_shares_have_the_active_problems_as_their_denominator_and_an_interval(inputs):
    shares, _, _ = decomposition.tables(inputs)
    row = cells(shares, level="all", generator=ANY)
    for name, expected in (("tf32_only", 2 / 8), ("hidden_only", 1 / 8), ("both", 2 / 8), ("neither", 2 / 8)):
        found = row[name]
        assert (found.value, found.n) == (pytest.approx(expected), 8)
        assert 0 <= found.low < found.value < found.high


def test_degenerate_problems_do_not_count():
    inputs = make({"one": ONE}, PROBLEMS, degenerate=["level1_1"])
    assert counts(inputs, "1", "one") == [0, 1, 1, 1, 1, 1, 1, 2]


def test_every_problem_is_listed_for_every_generator(inputs):
    listed = decomposition.tables(inputs)[2]
    assert [row[1] for row in listed.rows] == PROBLEMS
    row = cells(listed, problem="level1_2")
    assert (row["fate_any_generator"], row["fate_one"], row["fate_two"]) == ("both", "hidden only", "TF32 only")
    assert row["left"] == 0.5  # the least of 1.01 / 2 and 1 / 2
    assert cells(listed, problem="level1_5")["left"] == 0.5050 and cells(listed, problem="level2_2")["left"] is None


def test_the_drop_is_that_of_the_matched_winner_with_both_numbers():
    slow, fast = (
        sample("level1_1", 0, speedups=arms(4.0, 1.0, 1.0)),
        sample("level1_1", 1, speedups=arms(2.0, 1.5, 1.5)),
    )
    without = sample("level1_1", 2, speedups={"naive": 9.0, "matched": 9.0})
    names = ("speedup_naive", "speedup_published", "speedup_matched")
    rows = [dict.fromkeys(names) | row for row in (slow, fast, without)]
    assert fate_of(rows) == Fate(passes=True, tf32=False, hidden=False, left=0.75)
    assert fate_of(rows[:1]).tf32 is True
    assert fate_of([rows[0] | {"speedup_matched": None}]).left == 0.25  # then the naive winner
    assert fate_of(rows[2:]) == Fate(passes=True, tf32=None, hidden=False)
    assert fate_of([]) == Fate(passes=False, tf32=None, hidden=False)


def test_some_models_is_any_and_unknown_only_where_nobody_knows():
    unknown, kept, halved = Fate(True, None, True), Fate(True, False, False, 0.9), Fate(True, True, False, 0.4)
    assert together([unknown, kept]) == Fate(True, False, True, 0.9)
    assert together([unknown, kept, halved]) == Fate(True, True, True, 0.4)
    assert together([unknown]).tf32 is None


def test_what_failed_no_test_took_nothing_away():
    """A candidate without a hidden verdict (its reference overflowed) has not failed one."""
    row = sample("level1_1", speedups=KEPT) | {"verdict_hidden": None}
    assert fate_of([row]).hidden is False
    crash = sample("level1_1", speedups=KEPT) | {"verdict_hidden": "crash"}
    assert fate_of([crash]).hidden is True


def test_findings_say_what_takes_more_and_are_undecided_where_the_data_are():
    hundred = [f"level1_{i}" for i in range(1, 101)]
    kinds = [{"speedups": HALVED}] * 10 + [{"speedups": KEPT, "hidden": 0.5}] * 40 + [{"speedups": KEPT}] * 45
    kinds += [{"speedups": HALVED, "hidden": 0.5}] * 5
    many = make({"one": [sample(p, **kind) for p, kind in zip(hundred, kinds)]}, hundred)
    share, more = decomposition.findings(many)[-2:]
    assert share.estimate.value == pytest.approx(0.55) and share.outcome == "holds"
    assert more.estimate.value == pytest.approx(0.3) and more.outcome == "holds"
    assert "win hidden distributions take from one, less the share that the TF32 baseline takes" in more.sentence
    assert "100 active problems" in more.conditions and "tau 0.001" in more.conditions
    close = [{"speedups": HALVED}] * 10 + [{"speedups": KEPT, "hidden": 0.5}] * 11 + [{"speedups": KEPT}] * 79
    even = make({"one": [sample(p, **kind) for p, kind in zip(hundred, close)]}, hundred)
    assert decomposition.findings(even)[-1].outcome == "undecided"


def test_without_published_speedups_nothing_is_said_of_tf32():
    """As on a CPU, where the published arm is null."""
    rows = [sample(p, speedups={"naive": 2.0, "matched": 2.0}) for p in PROBLEMS]
    inputs = make({"one": rows}, PROBLEMS)
    assert counts(inputs, "all", "one") == [0, 0, 0, 0, 8, 0, 0, 0]
    assert {f.outcome for f in decomposition.findings(inputs)} == {"not measured"}
    assert all(UNTIMED in f.sentence for f in decomposition.findings(inputs))


@pytest.mark.parametrize(
    "rows",
    [{}, {"none": []}, {"half": [sample("level1_1", dtype="bf16", speedups=KEPT)]}],
)
def test_without_an_fp32_generator_the_tables_say_why(rows):
    inputs = make(rows, PROBLEMS)
    for made in decomposition.tables(inputs):
        assert made.rows == ()
        assert "no generator of dtype fp32" in table.to_markdown(made)
    assert list(decomposition.figures(inputs)) == ["decomposition"]
    (said,) = decomposition.findings(inputs)
    assert (said.outcome, "no generator of dtype fp32" in said.sentence) == ("not measured", True)


def test_one_problem_one_sample():
    inputs = make({"one": ONE[:1]}, ["level1_1"])
    assert counts(inputs, "all", "one") == [1, 0, 0, 0, 0, 0, 1, 0]
    assert decomposition.findings(inputs)[-1].outcome == "undecided"
    assert decomposition.figures(inputs)["decomposition"].axes


def test_bars_are_as_long_as_the_shares(inputs):
    made = decomposition.figures(inputs)["decomposition"]
    last = made.axes[2]  # levels 1 and 2, then all
    widths = [patch.get_width() for patch in last.patches]
    assert sum(widths) == pytest.approx(300.0)  # three bars
    assert widths[:4] == pytest.approx([25.0, 12.5, 25.0, 25.0])
    assert [text.get_text() for text in last.get_yticklabels()] == [ANY, "one", "two"]
