"""Published numbers against a small file of our own: what each asks, what the run answers, and what it cannot."""

from __future__ import annotations

import copy
import json

import pytest
import record_factory as make
from hand_made import EVERY, inputs, row

from kbverified.keys import ProblemKey
from kbverified.paper import build
from kbverified.paper.inputs import read_published
from kbverified.paper.published import best_model, numbers, problem_sets
from kbverified.paper.published_measured import answers
from kbverified.paper.topics import published

SUITE = "kernelbench"
D1, D2, D3, D4 = EVERY

PUBLISHED = {
    "source": "A paper, table 1",
    "models": ["Alpha 1", "Beta 2"],
    "verified": {
        "Alpha 1": {"level1": {"correct_speedup": 0.79, "correctness_pct": 87.5, "fast_1_pct": 0.0, "oddity": 3}},
        "Beta 2": {"level1": {"correctness_pct": 50.0}},
    },
    "overall": {"Alpha 1": {"correct_speedup": 0.79, "mem_efficient_pct": 87.5}, "Beta 2": {"correct_speedup": 0.5}},
    "bf16": {"Alpha 1": {"level1": {"correctness_pct": 100.0}}, "Beta 2": {"level1": {"correct_speedup": 1.5}}},
    "tolerance": {"Alpha 1": {"level1": {"1e-3": {"correctness_pct": 87.5}, "1e-4": {"correctness_pct": 70.0}}}},
    "four_conditions_from_figure7": {
        "Alpha 1": {"level1": {"fp32_standard": 1.6, "fp32_hidden": 1.6, "tf32_hidden": 0.8}}
    },
    "decomposition": {
        "counts": {"level1": {"tf32_only": 7, "hidden_only": 0, "both": 1, "neither": 1}},
        "denominator": 9,
    },
    "headline": {"naive": 1.6, "verified": 0.8, "kernels_increasing_peak_memory_pct": 0},
    "audit": {"kernels": 453},
    "degenerate": {"level1": [9]},
    "filtered_configs": ["level1/2 under negation", "level1/3 under x3"],
}
"""Nine problems of level 1, of which number 9 is degenerate."""


def run(**changes):
    """alpha on eight problems: 1 to 7 right, 8 right on the original inputs only, each with naive 1.6, published 0.8,
    matched 0.9, memory 2; 1 and 2 need tau 5e-4. beta does not compile; alpha-half is right in bf16, matched 1.5."""
    times = {"speedup_naive": 1.6, "speedup_published": 0.8, "speedup_matched": 0.9, "memory_ratio_allocator_peak": 2.0}
    rows = []
    for i in range(1, 9):
        right = i < 8
        tolerances = (1e-6, 1e-6 if right else 0.5, 5e-4 if i < 3 else 1e-6, 1e-6)
        rows.append(
            row(
                "alpha",
                f"level1_{i}",
                0,
                "pass" if right else "wrong_value",
                suite=SUITE,
                standard="pass",
                tolerances=tolerances,
                failed=() if right else (D2,),
                **times,
            )
        )
        rows.append(row("beta", f"level1_{i}", 0, "compile_error", suite=SUITE, tolerances=(None,) * 4))
        half = dict(dtype="bf16", tau=1e-2, speedup_matched=1.5, matched_from="time-fp32")
        rows.append(row("alpha-half", f"level1_{i}", 0, suite=SUITE, **half))
    audits = {ProblemKey(SUITE, f"level1_{i}"): make.problem(ProblemKey(SUITE, f"level1_{i}")) for i in range(1, 9)}
    nine = ProblemKey(SUITE, "level1_9")
    audits[nine] = make.problem(nine, degenerate=True)
    two = ProblemKey(SUITE, "level1_2")
    audits[two] = make.problem(two, not_applicable=(D4,))
    names = {"alpha": "Alpha 1", "beta": "Beta 2", "alpha-half": "Alpha 1"}
    return inputs(rows, audits, **({"names": names, "published": PUBLISHED} | changes))


@pytest.fixture(scope="module")
def small():
    return run()


@pytest.fixture(scope="module")
def answered(small):
    return {one.number.field: one for one in answers(small)[0]}


@pytest.fixture(scope="module")
def missing(small):
    return {one.number.field: one.reason for one in answers(small)[1]}


def test_every_number_is_answered_or_has_a_reason(answered, missing):
    assert not answered.keys() & missing.keys()
    # Counted in the file above: verified 5, overall, conditions 3 each, bf16, tolerance 2 each, then 5, 3 and 1.
    assert len(answered) + len(missing) == len(numbers(PUBLISHED)) == 24


def test_levels_metrics_and_units(answered):
    speed = answered["verified.Alpha 1.level1.correct_speedup"]
    assert (speed.generator, speed.measured.value, speed.measured.n) == ("alpha", pytest.approx(0.8), 7)
    assert speed.inside is False, "all seven are 0.8: the interval is a point, and 0.79 does not round to it"
    correct = answered["verified.Alpha 1.level1.correctness_pct"]
    assert correct.measured.value == pytest.approx(87.5) and correct.inside is True, "7 of 8"
    assert correct.measured.low < 87.5 < correct.measured.high
    assert answered["verified.Alpha 1.level1.fast_1_pct"].measured.value == 0.0
    assert answered["overall.Alpha 1.mem_efficient_pct"].measured.value == pytest.approx(87.5)
    assert answered["verified.Beta 2.level1.correctness_pct"].measured.value == 0.0


def test_arms_and_tests_of_the_four_conditions_and_the_headline(answered):
    naive = answered["four_conditions_from_figure7.Alpha 1.level1.fp32_standard"]
    assert (naive.question.arm, naive.question.test, naive.measured.n) == ("naive", "standard", 8)
    assert naive.measured.value == pytest.approx(1.6)
    hidden = answered["four_conditions_from_figure7.Alpha 1.level1.fp32_hidden"]
    assert (hidden.question.arm, hidden.measured.n, hidden.measured.value) == ("naive", 7, pytest.approx(1.6))
    assert best_model(PUBLISHED) == "Alpha 1"
    assert answered["headline.naive"].measured == naive.measured
    assert answered["headline.verified"].measured.value == pytest.approx(0.8)
    more = answered["headline.kernels_increasing_peak_memory_pct"].measured
    assert (more.value, more.n) == (0.0, 7), "the seven winners need half"
    assert more.high == pytest.approx(100 * (1 - 0.025 ** (1 / 7)))


def test_another_tau_and_dtype(answered):
    tight = answered["tolerance.Alpha 1.level1.1e-4.correctness_pct"]
    assert (tight.question.tau, tight.measured.value) == (1e-4, pytest.approx(62.5)), "1 and 2 fail too: 5 of 8"
    assert tight.inside is True
    half = answered["bf16.Alpha 1.level1.correctness_pct"]
    assert (half.generator, half.question.arm, half.question.tau) == ("alpha-half", "matched", 1e-2)
    assert half.measured.value == 100.0


def test_decomposition_counts_problems_and_neither_takes_the_degenerate_in(answered):
    # published / naive is exactly one half on all eight; on number 8 a hidden distribution fails the kernel too.
    kinds = ("tf32_only", "hidden_only", "both", "neither")
    found = {kind: answered[f"decomposition.counts.level1.{kind}"].measured for kind in kinds}
    assert {k: e.value for k, e in found.items()} == {"tf32_only": 7, "hidden_only": 0, "both": 1, "neither": 1}
    taken = 8 * 0.025 ** (1 / 8)  # exact: all eight are taken
    assert (found["neither"].low, found["neither"].high) == (1, pytest.approx(9 - taken))


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("verified.Alpha 1.level1.oddity", "not a number of a kind"),
        ("bf16.Beta 2.level1.correct_speedup", "no generator is Beta 2 in bf16"),
        ("overall.Beta 2.correct_speedup", "no verified sample"),
        ("audit.kernels", "no record holds"),
        ("decomposition.denominator", "no result"),
    ],
)
def test_what_cannot_be_answered_says_why(missing, field, why):
    assert why in missing[field]


def test_another_number_of_problems_is_not_compared():
    more = copy.deepcopy(PUBLISHED)
    more["decomposition"]["counts"]["level1"]["neither"] = 92
    found, missing = answers(run(published=more))
    reasons = {one.number.field: one.reason for one in missing}
    assert (
        "8 active problems there, the published number was taken over 99" in reasons["overall.Alpha 1.correct_speedup"]
    )
    assert "9 problems there, the published number was taken over 100" in reasons["decomposition.counts.level1.both"]
    assert not found


def test_some_models_means_all_of_the_file():
    _, missing = answers(run(names={"alpha": "Alpha 1"}))
    (why,) = {one.reason for one in missing if "counts" in one.number.field}
    assert "no generator is Beta 2" in why


def test_another_suite_and_renamed_references_answer_nothing():
    assert answers(run(published_suite="other"))[0] == []
    found, _ = answers(run(references=["alpha", "alpha-half"]))
    assert {one.generator for one in found} <= {"beta", None}


def test_two_generators_under_one_name_are_an_error():
    with pytest.raises(ValueError, match=r"paper.names: beta and alpha are both Alpha 1 in fp32"):
        answers(run(names={"alpha": "Alpha 1", "beta": "Alpha 1"}))


@pytest.mark.parametrize(("value", "inside"), [(0.794, False), (0.796, True), (0.804, True), (0.806, False)])
def test_rounding_counts_as_inside(value, inside):
    """All seven are 0.8, and so are both ends of the interval; 0.796 and 0.8 lie within half a hundredth."""
    near = copy.deepcopy(PUBLISHED)
    near["verified"]["Alpha 1"]["level1"]["correct_speedup"] = value
    found = {one.number.field: one for one in answers(run(published=near))[0]}
    assert found["verified.Alpha 1.level1.correct_speedup"].inside is inside


def test_lists_of_problems_are_compared_as_sets(small):
    assert problem_sets(PUBLISHED)["filtered_configs"] == {f"level1_2 {D4}", f"level1_3 {D2}"}
    rows = {r[0]: r[1:] for r in published.tables(small)[2].rows}
    assert rows["degenerate problems"] == ("level1_9", "none", "none", "yes")
    assert rows["distributions that do not apply"] == (f"level1_2 {D4}", f"level1_3 {D2}", "none", "no")


def test_findings_give_the_headline_and_every_dtype_and_tau(small):
    found = published.findings(small)
    assert [f.outcome for f in found[:3]] == ["holds", "holds", "holds"]
    assert (
        "The published 1.6 (Alpha 1, Correct Speedup, all levels) lies in the measured interval: 1.6"
        in found[0].sentence
    )
    by_part = {f.sentence.split(" under ")[1].split(")")[0]: f for f in found[3:]}
    assert (
        "1 of the 1 that have a measured interval lie inside it; 1 were not" in by_part["bf16 (bf16, tau 0.01"].sentence
    )
    assert {"tolerance (fp32, tau 0.001", "tolerance (fp32, tau 0.0001"} <= by_part.keys()


@pytest.mark.parametrize("file", [None, {"source": "empty"}, PUBLISHED])
def test_a_run_that_can_answer_nothing_writes_tables_that_say_so(tmp_path, file):
    nothing = inputs([], ["level1_1"], published=file)
    build.write_topic(build.topic("published"), nothing, tmp_path)
    text = (tmp_path / "tables/published.md").read_text()
    assert ("names no file" if file is None else "speaks to none") in text
    (said,) = json.loads((tmp_path / "findings/published.json").read_text())
    assert said["outcome"] == "not measured"
    if file is PUBLISHED:
        assert "no suite kernelbench" in (tmp_path / "tables/published_unanswered.md").read_text()


@pytest.mark.parametrize(
    ("section", "field", "wanted"),
    [
        ('"verified": {"M": {"level1": {"correct_speedup": "0.9"}}}', "verified.M.level1.correct_speedup", "a number"),
        ('"overall": {"M": {"correct_speedup": NaN}}', "NaN", "no number"),
        ('"overall": {"M": 1.5}', "overall.M", "an object"),
        ('"degenerate": "none"', "degenerate", "an object"),
        ('"degenerate": {"easy": [3]}', "degenerate", "a level"),
        ('"decomposition": {"counts": {"all": {"both": 3}}}', "decomposition.counts", "a level"),
        ('"degenerate": {"level1": 3}', "degenerate.level1", "a list"),
        ('"filtered_configs": {}', "filtered_configs", "a list"),
        ('"decomposition": {"counts": {"level1": {"both": null}}}', "decomposition.counts.level1.both", "a number"),
        ('"headline": {"naive": [1]}', "headline.naive", "a number"),
    ],
)
def test_a_file_of_another_shape_is_refused_by_its_field(tmp_path, section, field, wanted):
    path = tmp_path / "mine.json"
    path.write_text(f'{{"source": "x", {section}}}')
    with pytest.raises(ValueError, match=r"mine\.json") as caught:
        read_published(path)
    assert field in str(caught.value) and wanted in str(caught.value)
