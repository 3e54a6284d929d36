"""Best of k by hand: every subset of every problem's samples counted one by one, unequal numbers among them."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest
from hand_made import cells, inputs, row

from kbverified.paper.inputs import PaperInputs
from kbverified.paper.topics import best_of_n, best_of_n_figures
from kbverified.paper.topics.best_of_n_curve import best_of, whole_suites
from kbverified.paper.topics.best_of_n_selection import selection

Sample = tuple[str, float | None]
"""Which tests it passes, of ``none``, ``standard`` and ``both``; its speedup in every arm."""

FULL: dict[str, list[Sample]] = {
    "level1_1": [("both", 2.0), ("none", None), ("standard", 8.0)],
    "level1_2": [("both", 0.5), ("both", 1.5), ("both", 0.25)],
    "level1_3": [("none", None), ("none", None), ("none", None)],
    "level1_4": [("standard", 3.0), ("standard", 2.0), ("none", 9.0)],
    "level1_5": [("none", None), ("none", None), ("both", 0.4)],
    "level1_6": [("both", None), ("both", 1.25), ("none", None)],  # the first is right and has no time
    "level1_7": [("both", 1.0), ("both", 1.0), ("standard", 1.0)],  # a tie: the lower number wins
    "level2_1": [("both", 4.0), ("both", 2.0), ("both", 3.0)],
}


def rows(samples: dict[str, list[Sample]], generator: str = "g", **more: Any) -> list[dict[str, Any]]:
    """Samples as rows; one that fails has no speedup, as the aggregation would have it, but where it is given."""
    return [
        row(
            *(generator, problem, number, "pass" if passes == "both" else "wrong_value"),
            standard="wrong_value" if passes == "none" else "pass",
            **{f"speedup_{arm}": speed for arm in ("naive", "published", "matched")},
            **more,
        )
        for problem, several in samples.items()
        for number, (passes, speed) in enumerate(several)
    ]


def counted(samples: dict[str, list[Sample]], k: int, problems: list[str]) -> dict[str, float]:
    """Every number of k, by counting subsets."""
    sums = dict.fromkeys(
        ("solved", "timed", "faster", "taken", "taken_right", "kept", "log", "log_taken", "log_right"), 0.0
    )
    given = []
    for problem in problems:
        every = list(combinations(enumerate(samples.get(problem, [])), k))
        logs = []
        for subset in every:
            share = 1 / len(every)
            right = [s for _, (passes, s) in subset if passes == "both"]
            best = max((s for s in right if s is not None), default=None)
            # The fastest by the standard test, the lower number where two are equally fast.
            choice = max(
                (
                    (s, -number, passes == "both")
                    for number, (passes, s) in subset
                    if passes != "none" and s is not None
                ),
                default=None,
            )
            sums["solved"] += share * bool(right)
            sums["kept"] += share * math.log(max(1.0, best or 1.0))
            if best is not None:
                logs.append(math.log(best))
                sums["timed"] += share
                sums["log"] += share * math.log(best)
                sums["faster"] += share * (best > 1)
            if choice is not None:
                sums["taken"] += share
                sums["log_taken"] += share * math.log(choice[0])
                sums["taken_right"] += share * choice[2]
                sums["log_right"] += share * choice[2] * math.log(choice[0])
        if logs:
            given.append(sum(logs) / len(logs))
    n = len(problems)
    return {
        "pass_at_k": sums["solved"] / n,
        "correct_speedup": math.exp(sums["log"] / sums["timed"]),
        "correct_speedup_same": math.exp(sum(given) / len(given)),
        "fast_1": sums["faster"] / n,
        "reference_kept": math.exp(sums["kept"] / n),
        "right": sums["timed"] / n,
        "taken_right": sums["taken_right"] / n,
        "lost": (sums["timed"] - sums["taken_right"]) / n,
        "wrong": 1 - sums["taken_right"] / sums["taken"],
        "taken_correct_speedup": math.exp(sums["log_right"] / sums["taken_right"]),
        "claimed_speedup": math.exp(sums["log_taken"] / sums["taken"]),
    }


BEST = ("pass_at_k", "correct_speedup", "correct_speedup_same", "fast_1", "reference_kept")
CHOSEN = ("right", "taken_right", "lost", "wrong", "correct_speedup", "taken_correct_speedup", "claimed_speedup")


@pytest.fixture(scope="module")
def made() -> PaperInputs:
    return inputs(rows(FULL))


def table(made: PaperInputs, name: str) -> Any:
    (found,) = [one for one in best_of_n.tables(made) if one.name == name]
    return found


def check(cell: Any, expected: float) -> None:
    assert cell.value == pytest.approx(expected, rel=1e-8)
    if cell.low is not None:
        assert cell.low <= cell.value <= cell.high


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_number_is_what_counting_subsets_gives(made, k):
    expected = counted(FULL, k, list(FULL))
    found = cells(table(made, "best_of_n"), k=k, level="all")
    for name in BEST:
        check(found[name], expected[name])
    assert (found["n_problems"], found["n_enough"]) == (8, 8)
    assert found["pass_at_k_enough"] == found["pass_at_k"]
    chosen = cells(table(made, "best_of_n_selection"), k=k, level="all")
    for name in CHOSEN:
        check(chosen[name], expected[name])


def test_at_k_of_one_it_is_the_mean_of_single_samples(made):
    found = cells(table(made, "best_of_n"), k=1, level="all")
    assert found["pass_at_k"].value == pytest.approx(12 / 24)  # passing samples, of all
    logs = [math.log(s) for several in FULL.values() for passes, s in several if passes == "both" and s is not None]
    assert found["correct_speedup"].value == pytest.approx(math.exp(sum(logs) / len(logs)))


def test_at_k_of_all_it_is_the_leaderboard(made):
    entry = made.leaderboard.entry("g", "s", None, "matched", "hidden")
    found = cells(table(made, "best_of_n"), k=3, level="all")
    assert found["pass_at_k"] == entry.correctness, "with its interval"
    assert found["fast_1"] == entry.fast_p["1"]
    assert found["correct_speedup"] == entry.correct_speedup
    assert found["correct_speedup_same"] == entry.correct_speedup
    standard = made.leaderboard.entry("g", "s", None, "matched", "standard")
    by_test = cells(table(made, "best_of_n_tests"), k=3, level="all")
    assert by_test["pass_at_k_standard"] == standard.correctness
    check(
        cells(table(made, "best_of_n_selection"), k=3, level="all")["claimed_speedup"], standard.correct_speedup.value
    )


def test_what_cannot_fall_with_k_does_not(made):
    (curve,) = whole_suites(made)
    found = [best_of(curve, k) for k in curve.ks]
    for name in ("passing", "faster", "kept", "speedup_same"):
        values = [getattr(one, name).value for one in found]
        assert values == sorted(values), name


def test_what_all_samples_add_to_one_by_hand(made):
    one, two, all_of_them = (counted(FULL, k, list(FULL)) for k in (1, 2, 3))
    found = {f.sentence.split(" is ")[0]: f.estimate for f in best_of_n.findings(made)}
    (ratio,) = [e for said, e in found.items() if "over that of one sample" in said]
    assert ratio.value == pytest.approx(all_of_them["correct_speedup"] / one["correct_speedup"])
    (last,) = [e for said, e in found.items() if "sample number 3 adds" in said]
    assert last.value == pytest.approx(all_of_them["pass_at_k"] - two["pass_at_k"])


def test_choosing_by_the_standard_test_can_get_worse_with_more_samples():
    # One right sample and two faster wrong ones: the more samples, the surer a wrong one is taken.
    names = [f"level1_{i}" for i in range(1, 8)]
    samples: dict[str, list[Sample]] = {
        name: [("both", 1.5), ("standard", 3.0), ("standard", 2.0)] if i else [("both", 1.5)] * 3
        for i, name in enumerate(names)
    }
    (curve,) = whole_suites(inputs(rows(samples)))
    shares = [selection(curve, k).taken_right.value for k in (1, 2, 3)]
    assert shares == pytest.approx([(1 + 6 * 1 / 3) / 7, 1 / 7, 1 / 7])
    assert [selection(curve, k).right.value for k in (1, 2, 3)] == pytest.approx([3 / 7, (1 + 6 * 2 / 3) / 7, 1.0])
    (finding,) = [f for f in best_of_n.findings(curve.inputs) if "with 3 samples less that with one" in f.sentence]
    assert finding.outcome == "does not hold" and "-28.6 %" in finding.sentence
    (lost,) = [f for f in best_of_n.findings(curve.inputs) if "are lost" in f.sentence]
    assert lost.outcome == "holds"
    assert lost.estimate.value == pytest.approx(6 / 7)


# --- unequal numbers of samples -----------------------------------------------------------------------------

UNEQUAL: dict[str, list[Sample]] = {
    **{name: several[:2] for name, several in FULL.items()},
    "level1_1": FULL["level1_1"],
    "level1_2": FULL["level1_2"],
    "level1_4": FULL["level1_4"],
    "level1_5": [],
    "level1_6": [*FULL["level1_6"][:2], ("both", 0.75), ("none", None)],
    "level1_7": FULL["level1_7"],
    "level2_1": FULL["level2_1"],
    "level2_2": [("both", 0.9), ("standard", 1.1), ("both", 1.2)],
}


@pytest.fixture(scope="module")
def unequal() -> PaperInputs:
    return inputs(rows(UNEQUAL), [name for name in UNEQUAL])


@pytest.mark.parametrize("k", [1, 2])
def test_problems_with_more_samples_weigh_no_more(unequal, k):
    """Up to the fewest of any problem; the one without a candidate counts as not solved."""
    found = cells(table(unequal, "best_of_n"), k=k, level="all")
    with_some = [name for name, several in UNEQUAL.items() if several]
    expected = counted(UNEQUAL, k, with_some)
    assert (found["n_problems"], found["n_enough"]) == (9, 8)
    for name in ("pass_at_k", "fast_1"):
        check(found[name], expected[name] * 8 / 9)
    for name in ("correct_speedup", "correct_speedup_same"):
        check(found[name], expected[name])
    check(found["reference_kept"], expected["reference_kept"] ** (8 / 9))
    check(found["pass_at_k_enough"], expected["pass_at_k"])
    chosen = cells(table(unequal, "best_of_n_selection"), k=k, level="all")
    for name in ("right", "taken_right", "lost"):
        check(chosen[name], expected[name] * 8 / 9)
    check(chosen["wrong"], expected["wrong"])


@pytest.mark.parametrize(("k", "short"), [(3, 1), (4, 7)])
def test_beyond_the_fewest_only_the_problems_with_enough_speak(unequal, k, short):
    found = cells(table(unequal, "best_of_n"), k=k, level="all")
    for name in BEST:
        assert (found[name].value, found[name].why_null) == (None, f"{short} of 9 problems have fewer than {k} samples")
    enough = [name for name, several in UNEQUAL.items() if len(several) >= k]
    assert found["n_enough"] == len(enough) == 8 - short
    expected = counted(UNEQUAL, k, enough)
    check(found["pass_at_k_enough"], expected["pass_at_k"])
    check(found["correct_speedup_enough"], expected["correct_speedup"])


def test_figures_end_where_a_problem_has_no_more_samples(unequal):
    (curve,) = whole_suites(unequal)
    assert (curve.fewest, curve.most, curve.ks) == (2, 4, (1, 2, 3, 4))
    assert best_of_n_figures.points(curve) == [1, 2]
    (axes,) = best_of_n_figures.passing(unequal).axes
    solid = axes.get_lines()[0]
    assert list(solid.get_xdata()) == [1, 2]
    with_some = [name for name, several in UNEQUAL.items() if several]
    assert list(solid.get_ydata()) == pytest.approx(
        [100 * counted(UNEQUAL, k, with_some)["pass_at_k"] * 8 / 9 for k in (1, 2)]
    )
    (speedup,) = best_of_n_figures.speedup(unequal).axes
    assert list(speedup.get_lines()[0].get_ydata()) == pytest.approx(
        [counted(UNEQUAL, k, with_some)["correct_speedup"] for k in (1, 2)]
    )


def test_of_many_samples_a_figure_draws_some():
    many = {"level1_1": [("both", 1.0 + i / 100) for i in range(64)]}
    (curve,) = whole_suites(inputs(rows(many)))
    points = best_of_n_figures.points(curve)
    assert points[0] == 1 and points[-1] == 64 and len(points) <= 40
    assert curve.ks == (1, 2, 3, 4, 5, 10, 20, 50, 64)
    best_of_n_figures.speedup(curve.inputs).draw_without_rendering()


# --- what there is not --------------------------------------------------------------------------------------


def test_fifty_samples_are_not_extrapolated_from_three(made):
    found = cells(table(made, "best_of_n"), k=50, level="all")
    why = "best of 50 is not extrapolated: no problem has more than 3 samples"
    for name in (*BEST, "pass_at_k_enough", "correct_speedup_enough"):
        assert (found[name].value, found[name].why_null) == (None, why)
    (finding,) = [f for f in best_of_n.findings(made) if f.sentence.startswith("The best of 50")]
    assert finding.outcome == "not measured"
    assert finding.sentence == f"The best of 50 samples of g (all levels) was not measured: {why}."


def test_fifty_samples_are_what_they_are_where_there_are_fifty():
    samples = {f"level1_{i}": [("both", 1.0 + j / 50) for j in range(50)] for i in range(1, 8)}
    made = inputs(rows(samples))
    check(cells(table(made, "best_of_n"), k=50, level="all")["correct_speedup"], 1.98)
    assert not any("extrapolated" in f.sentence for f in best_of_n.findings(made))


def test_an_arm_without_times_is_null_and_no_reference_is_kept_for_it():
    made = inputs(rows({name: [(passes, None) for passes, _ in several] for name, several in FULL.items()}))
    found = cells(table(made, "best_of_n"), k=2, level="all")
    check(found["pass_at_k"], counted(FULL, 2, list(FULL))["pass_at_k"])
    for name in ("correct_speedup", "correct_speedup_same", "fast_1", "reference_kept"):
        assert found[name].value is None and "not in the record" in found[name].why_null
    chosen = cells(table(made, "best_of_n_selection"), k=2, level="all")
    assert all(chosen[name].value is None for name in CHOSEN)


def test_who_solves_nothing_keeps_the_reference():
    made = inputs(rows({name: [("none", None)] * 2 for name in FULL}))
    found = cells(table(made, "best_of_n"), k=2, level="all")
    assert (found["pass_at_k"].value, found["fast_1"].value, found["reference_kept"].value) == (0.0, 0.0, 1.0)
    assert found["reference_kept"].low is None, "nothing varies: a bootstrap would claim certainty"
    assert found["pass_at_k"].high == pytest.approx(1 - 0.025 ** (1 / 8))  # exact: 0 of 8
    assert found["correct_speedup"].value is None


def test_without_any_candidate_everything_is_there_and_says_so():
    made = inputs([], ["level1_1"], generators=["g"])
    assert [len(one.rows) for one in best_of_n.tables(made)] == [0, 0, 0]
    assert all("Nothing to show" in one.note for one in best_of_n.tables(made))
    (finding,) = best_of_n.findings(made)
    assert finding.outcome == "not measured"
    assert set(best_of_n.figures(made)) == {"best_of_n_pass", "best_of_n_speedup"}
