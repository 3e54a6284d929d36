"""From hardened trials to a verdict: limits, laws that do not apply, and problems that decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import record_factory as rf

from kbverified import protocol, verdicts
from kbverified.hardened.verdict import judge, undecidable
from kbverified.keys import ProblemKey
from kbverified.records.problem import HardenedAudit
from kbverified.records.trials import HardenedTrial, OracleErrors
from kbverified.scaled_limit import within

KEY = ProblemKey("kb", "level1_1")
FLOOR = protocol.SCALED_LIMIT_FLOOR["fp32"]


def errors(scaled=1e-7, own=1e-7, wrong=None):
    return OracleErrors(kind="fp64", scaled_error=scaled, reference_scaled_error=own, wrong_elements=wrong)


def trial(law="h1", scaled=1e-7, own=1e-7, wrong=None, **changes):
    usual = {"critical_tolerance": 1e-7, "oracle": errors(scaled, own, wrong)}
    return HardenedTrial(distribution=law, **{**usual, **changes})


def gate(*trials, **changes):
    return rf.gate(hardened=trials, **changes)


def test_within_the_limits_it_passes():
    assert judge(gate(trial(), trial("h2", FLOOR), trial("h3", 7.9e-3, 1e-3)), None).verdict == "pass"


@pytest.mark.parametrize(
    ("bad", "verdict"),
    [
        (trial("h2", 2 * FLOOR), "wrong_value"),
        (trial("h2", 0.1, 1e-3), "wrong_value"),
        (trial("h2", None, None, wrong=3), "wrong_value"),
        (trial("h2", failure="crash", detail="signal 11"), "crash"),
        (trial("h2", failure="nonfinite", oracle=None), "nonfinite"),
    ],
)
def test_beyond_a_limit_it_fails_and_the_law_is_named(bad, verdict):
    found = judge(gate(trial(), bad), None)
    assert (found.verdict, found.failed, found.why_null) == (verdict, ("h2",), None)
    assert found.detail and found.detail.startswith("h2: ")


@pytest.mark.parametrize(
    ("comparable", "verdict"), [(True, "wrong_value"), (None, "wrong_value"), (False, "weights_differ")]
)
def test_weights_that_do_not_follow_the_seed_name_the_cause_and_excuse_nothing(comparable, verdict):
    assert judge(gate(trial(), trial("h7", 1.0, comparable=comparable)), None).verdict == verdict
    assert judge(gate(trial(), trial("h7", comparable=comparable)), None).verdict == "pass"


def test_where_values_repeat_a_plain_running_sum_is_right():
    # Of an honest product over 10^6 on an H200: (scaled error, the reference's own).
    seen, elsewhere = (9.889679495245218e-4, 9.165783922071569e-6), (8.816432455205359e-6, 8.263436939159874e-07)
    assert (
        judge(gate(trial("h5_sorted_and_repeated", *seen), trial("h2_row_scales", *elsewhere)), None).verdict == "pass"
    )
    assert judge(gate(trial("h1_scale_and_offset", *seen)), None).verdict == "wrong_value"
    bad = trial("h5_sorted_and_repeated", 3.1e-3, 1e-5)
    assert judge(gate(bad, trial("h2_row_scales", *elsewhere)), None).verdict == "wrong_value"


def test_who_is_not_exact_elsewhere_has_no_higher_floor():
    # A hinge loss with its labels along the wrong axis, on a CPU: it nearly passes every other law.
    hinge = [
        trial("h1_scale_and_offset", 2.6502186665311456e-4, 2.331165838143079e-08),
        trial("h3_spikes", 5.2959308959543705e-05, 3.0235241865739226e-08),
        trial("h5_sorted_and_repeated", 3.250578010920435e-4, 5.3462101412549146e-09),
    ]
    assert judge(gate(*hinge), None).failed == ("h5_sorted_and_repeated",)
    # TF32 (level2 63 on an H200) is off under every law.
    tf32 = trial("h5_sorted_and_repeated", 2.130368258804083e-3, 1.571711436554324e-5)
    found = judge(gate(tf32, trial("h1_scale_and_offset", 1.9565282855182886e-3, 1.6e-5)), None)
    assert (found.verdict, found.failed) == ("wrong_value", ("h5_sorted_and_repeated", "h1_scale_and_offset"))
    repeated = trial("h5_sorted_and_repeated", 2 * FLOOR)
    for beside in ([trial("h2", None, None)], [trial("h2", None, None, wrong=1)]):
        assert judge(gate(repeated, *beside), None).verdict == "wrong_value"
    assert judge(gate(repeated).model_copy(update={"trials": ()}), None).verdict == "wrong_value"  # nothing beside
    assert (
        judge(gate(trial("h5_sorted_and_repeated", 2 * FLOOR), trial("h2", None, None, wrong=0)), None).verdict
        == "pass"
    )


def with_published(record, **scaled):
    """The record, its trials under these distributions off by so much of the oracle's scale."""
    changed = tuple(
        t.model_copy(update={"oracle": errors(scaled[t.distribution])}) if t.distribution in scaled else t
        for t in record.trials
    )
    return record.model_copy(update={"trials": changed})


def test_the_published_distributions_are_held_against_the_oracle_too():
    # A bias rounded to half precision beside a product of 8192 terms: seen where inputs are a hundredth (H200).
    found = judge(with_published(gate(trial()), **{"d3_scale_0.01": 7.45e-4}), None)
    assert (found.verdict, found.failed) == ("wrong_value", ("d3_scale_0.01",))
    assert found.detail and found.detail.startswith("d3_scale_0.01: off by 0.000745 of the output's scale")
    # A bf16 result that is averaged afterwards: the published ones say that it is not exact where values differ.
    repeated = trial("h5_sorted_and_repeated", 4.82e-4, 5.3e-7)
    assert judge(gate(trial("h1", 2.9e-5), repeated), None).verdict == "pass"
    found = judge(with_published(gate(trial("h1", 2.9e-5), repeated), **{"d3_scale_0.01": 3.91e-5}), None)
    assert found.failed == ("h5_sorted_and_repeated",)


def test_every_trial_is_said_to_be_right_or_wrong_or_nothing():
    beside = trial("h2", 1.0, applicable=False)
    record = with_published(gate(trial("h1", 2 * FLOOR), beside, trial("h3", oracle=None)), d2_scale_3=2 * FLOOR)
    said = judge(record, None).trials
    assert [one.right for one in said] == [True, False, True, True, False, None, None]
    assert [(one.why or "").split(":")[0] for one in said] == ["", "d2_scale_3", "", "", "h1", "", ""]


def test_no_law_allows_bf16_a_tenth_of_the_outputs_scale():
    # The error of a running sum is float32's, 1e-3 at worst, and below what bf16 is allowed under every law.
    assert within(errors(1e-3, 1e-5), "bf16", "h5_sorted_and_repeated") is True
    assert within(errors(0.1, 1e-5), "bf16", "h5_sorted_and_repeated") is False


def test_what_does_not_apply_says_nothing():
    beside = trial("h2", 1.0, applicable=False)
    assert judge(gate(trial(), beside), None).verdict == "pass"
    found = judge(gate(beside), None)
    assert found.verdict is None and found.why_null and "no hardened law applies" in found.why_null


def test_no_trials_are_no_verdict():
    assert "no hardened trials" in str(judge(gate(), None).why_null)
    assert judge(gate(hardened_why_not="it fails"), None).why_null == "it fails"


def audited(*scaled):
    laws = [HardenedAudit(law=f"h{i}", applicable=True, replay=errors(s)) for i, s in enumerate(scaled)]
    return rf.problem(KEY, hardened=tuple(laws))


def test_undecidable_is_where_other_inputs_outputs_pass_everywhere():
    assert undecidable(audited(FLOOR, FLOOR / 2), "fp32") is True
    assert undecidable(audited(FLOOR, 2 * FLOOR), "fp32") is False
    assert undecidable(audited(FLOOR, 2 * FLOOR), "bf16") is True
    assert undecidable(rf.problem(KEY, hardened=()), "fp32") is None
    found = judge(gate(trial()), audited(FLOOR))
    assert found.verdict is None and "undecidable" in str(found.why_null)


def test_who_fails_the_hidden_test_fails_the_hardened_one_for_the_same_reason():
    tolerances = dict.fromkeys(protocol.DISTRIBUTIONS, 1e-6) | {"d3_scale_0.01": 1.0}
    record = rf.gate(tolerances, hardened=(trial(),))
    found = verdicts.judge(rf.compiled(), record, tuple(protocol.DISTRIBUTIONS), 1e-3, Path("gate.json"))
    assert found["hardened"] == found["hidden"] and found["hidden"].verdict == "wrong_value"
