"""Memory by hand: efficiency of the winners, quadrants, and shares whose denominators differ."""

import math

import pytest
from hand_made import cells, inputs, won

from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics import memory, memory_figures
from kbverified.paper.topics.memory_kernels import Kernel, count_quadrants

PROBLEMS = [f"level1_{i}" for i in range(1, 5)] + ["level2_1", "level2_2"]
ROWS = [
    won("g", "level1_1", 0, 2.0, memory=4.0),
    won("g", "level1_1", 1, 3.0, memory=0.5),  # wins on speed and needs twice the memory
    won("g", "level1_2", 0, 0.5, memory=2.0),
    won("g", "level1_3", 0, 1.0, memory=1.0),  # not faster, equal
    won("g", "level2_1", 0, 1.5, memory=None),  # wins, and its memory was not measured
    won("g", "level2_2", 0, 9.0, memory=9.0, verdict="wrong_value"),
]


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(ROWS, PROBLEMS)


def table(made: PaperInputs, name: str):
    return {t.name: t for t in memory.tables(made)}[name]


@pytest.mark.parametrize("field", ["allocator_peak", "allocator_above", "device_peak", "device_above"])
def test_rows_by_hand(made, field):
    one = cells(table(made, f"memory_{field}"), level="1")
    assert (one["n_problems"], one["n_timed"], one["n_measured"]) == (4, 3, 3)
    assert one["memory_efficiency"].value == pytest.approx((0.5 * 2.0 * 1.0) ** (1 / 3))
    assert one["memory_efficient"].value == 1 / 4  # of all active problems; equal is not less
    whole = cells(table(made, f"memory_{field}"), level="all")
    assert (whole["n_problems"], whole["n_timed"], whole["n_measured"]) == (6, 4, 3)
    assert whole["memory_efficient"].value == pytest.approx(1 / 6)


def test_a_level_without_measured_memory_has_a_dash_and_a_reason(made):
    two = cells(table(made, "memory_allocator_peak"), level="2")
    assert (two["n_timed"], two["n_measured"], two["memory_efficiency"].value) == (1, 0, None)
    assert "not in the record" in " ".join(table(made, "memory_allocator_peak").below())


def test_quadrants_by_hand(made):
    row = cells(table(made, "memory_quadrants"), level="all", memory_figure="allocator_peak")
    there = {name: value for name, value in row.items() if name.startswith("n_") and value}
    assert there == {"n_measured": 3, "n_faster_more": 1, "n_slower_less": 1, "n_slower_equal": 1}
    assert row["more_memory"].value == pytest.approx(1 / 3)  # of the measured winners
    assert row["more_memory"].n == 3


def test_every_kernel_is_in_one_quadrant():
    kernels = [Kernel("g", "p", 1, s, r) for s in (0.5, 1.0, 2.0) for r in (0.5, 1.0, 2.0)]
    assert count_quadrants(kernels) == {
        "faster_less": 1,
        "faster_equal": 1,
        "faster_more": 1,
        "slower_less": 2,
        "slower_equal": 2,
        "slower_more": 2,
    }


def test_winners_of_several_generators_are_pooled_by_problem():
    """Two generators, eight problems: on four of them both winners need more, which is four clusters and not eight."""
    names = [f"level1_{i}" for i in range(1, 9)]
    rows = [won(g, p, 0, 1.0, memory=0.5 if i < 4 else 2.0) for g in ("a", "b") for i, p in enumerate(names)]
    (found,) = [
        f
        for f in memory.findings(inputs(rows, names))
        if "winners of 2 generators" in f.sentence and "alloc" in f.sentence
    ]
    assert (found.estimate.value, found.estimate.n) == (0.5, 16)
    # Of eight independent clusters the standard error is sqrt(0.25 / 8) = 0.18; of sixteen kernels it would be 0.125.
    assert found.estimate.high - found.estimate.low > 2 * 1.96 * 0.17


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((2.0, 1.5) * 4, "holds"),
        ((2.0, 0.5) * 4, "undecided"),
        ((0.5, 0.6) * 4, "does not hold"),
        ((None,) * 8, "not measured"),
    ],
)
def test_claims_follow_their_intervals(ratios, outcome):
    names = [f"level1_{i}" for i in range(1, 9)]
    rows = [won("g", p, 0, 1.0, memory=r) for p, r in zip(names, ratios)]
    found = next(f for f in memory.findings(inputs(rows, names)) if "memory efficiency" in f.sentence)
    assert found.outcome == outcome


def points(panel):
    """Positions of the markers of a panel, rounded."""
    lines = [line for line in panel.get_lines() if line.get_marker() not in ("None", None, "")]
    return {(round(float(x), 6), round(float(y), 6)) for line in lines for x, y in zip(*line.get_data()) if x == x}


def test_the_figure_of_kernels_shows_every_measured_winner_once(made):
    (panel,) = memory_figures.kernels(made, "allocator_peak").axes
    assert points(panel) == {(3.0, 0.5), (0.5, 2.0), (1.0, 1.0)}
    words = {text.get_text() for text in panel.texts}
    assert words == {
        "faster,\nless memory\n0 %",
        "faster,\nmore memory\n33 %",
        "not faster,\nless memory\n33 %",
        "not faster,\nmore memory\n0 %",
    }
    assert panel.get_title() == "g\nn 3, equal 33 %"


def test_the_figure_of_levels_has_the_tables_numbers_and_says_what_is_missing(made):
    one, two, whole = memory_figures.levels(made, "allocator_peak").axes
    assert points(one) == {(round((3.0 * 0.5) ** (1 / 3), 6), 1.0)}
    assert points(whole) == {(round((3.0 * 0.5 * 1.5) ** (1 / 4), 6), 1.0)}
    assert not points(two)
    assert "not in the record" in two.texts[0].get_text().replace("\n", " ")
    assert math.isclose(one.get_xlim()[0], whole.get_xlim()[0])


def test_the_share_of_memory_efficient_winners_is_held_against_a_half():
    """Of eight active problems three winners need less: below a half, and with eight problems undecided."""
    names = [f"level1_{i}" for i in range(1, 9)]
    made = inputs([won("g", p, 0, 1.0, memory=2.0 if i < 3 else 0.5) for i, p in enumerate(names)], names)
    found = next(f for f in memory.findings(made) if "needs less memory" in f.sentence)
    assert (found.estimate.value, found.threshold, found.outcome) == (3 / 8, 0.5, "undecided")
