"""Verdicts from compile and gate records: tau, the two tests, and whose failure a failure is."""

from pathlib import Path

import pytest
import record_factory as rf

from kbverified import protocol, verdicts
from kbverified.records.files import RecordError
from kbverified.records.stages import CompileRecord, GateRecord

ALL = tuple(protocol.DISTRIBUTIONS)
D1, D2, D3, D4 = ALL
PATH = Path("results/hidden-gate/g/s/level1_1/0.json")


def judge(gate, compiled=None, applicable=ALL, tau=1e-3):
    found = verdicts.judge(compiled or rf.compiled(), gate, applicable, tau, PATH)
    return found["standard"], found["hidden"]


def tolerances(**changed):
    return dict.fromkeys(ALL, 1e-6) | {ALL[int(name[1]) - 1]: value for name, value in changed.items()}


def test_all_within_tau_passes_both_tests():
    assert [j.verdict for j in judge(rf.gate(tolerances(d2=1e-3)))] == ["pass", "pass"]


def test_beyond_tau_on_a_hidden_distribution_fails_the_hidden_test_only():
    standard, hidden = judge(rf.gate(tolerances(d3=0.002, d4=0.5)))
    assert standard.verdict == "pass"
    assert hidden.verdict == "wrong_value"
    assert hidden.failed == (D3, D4)
    assert hidden.detail == "d3_scale_0.01: needs tau 0.002, has 0.001"


def test_tau_decides_without_another_record():
    gate = rf.gate(tolerances(d1=5e-3))
    assert [j.verdict for j in judge(gate, tau=1e-2)] == ["pass", "pass"]
    assert [j.verdict for j in judge(gate, tau=1e-3)] == ["wrong_value", "wrong_value"]


def test_differing_weights_name_the_cause_of_a_wrong_value():
    bad = tolerances(d1=1.0)
    assert [j.verdict for j in judge(rf.gate(bad, weights_match=False))] == ["weights_differ", "weights_differ"]
    assert judge(rf.gate(bad, weights_match=None))[1].verdict == "wrong_value"
    # Other weights that give the right answer are no failure.
    assert judge(rf.gate(weights_match=False))[1].verdict == "pass"


def test_compile_failure_is_the_verdict_of_both_tests():
    compiled = rf.compiled("syntax_error", "line 3")
    skipped = rf.skipped(GateRecord, "hidden-gate", "compile: syntax_error")
    for gate in (skipped, None):
        for judgement in judge(gate, compiled):
            assert (judgement.verdict, judgement.detail, judgement.why_null) == ("syntax_error", "line 3", None)


def test_a_gate_that_ended_before_any_trial_fails_both_tests():
    standard, hidden = judge(rf.gate({}, verdict="import_error", detail="no module named x"))
    assert standard.verdict == hidden.verdict == "import_error"
    assert hidden.detail == "no module named x"


def test_a_structural_failure_on_a_hidden_distribution_spares_the_standard_test():
    gate = rf.gate(tolerances(d2="nonfinite", d4=0.1), verdict="nonfinite")
    standard, hidden = judge(gate)
    assert standard.verdict == "pass"
    assert (hidden.verdict, hidden.failed) == ("nonfinite", (D2, D4))


def test_the_standard_test_is_judged_by_tau_where_a_hidden_distribution_crashed():
    gate = rf.gate({D1: 0.1, D2: "crash"}, verdict="crash")
    standard, hidden = judge(gate)
    assert standard.verdict == "wrong_value"
    assert hidden.verdict == "crash"


def test_a_worker_that_died_between_distributions_fails_the_hidden_test_only():
    standard, hidden = judge(rf.gate({D1: 1e-6, D2: 1e-6}, verdict="timeout"))
    assert (standard.verdict, hidden.verdict) == ("pass", "timeout")


def test_a_failure_after_every_trial_counts_for_both_tests():
    standard, hidden = judge(rf.gate(verdict="protocol_violation"))
    assert standard.verdict == hidden.verdict == "protocol_violation"


def test_a_failure_on_the_original_distribution_fails_both_tests():
    standard, hidden = judge(rf.gate(tolerances(d1="wrong_shape"), verdict="wrong_shape"))
    assert (standard.verdict, hidden.verdict) == ("wrong_shape", "wrong_shape")
    assert standard.failed == (D1,)


def test_a_distribution_that_does_not_apply_is_neither_pass_nor_failure():
    applicable = (D1, D3, D4)
    gate = rf.gate(tolerances(d2=None))
    assert [j.verdict for j in judge(gate, applicable=applicable)] == ["pass", "pass"]
    assert verdicts.outcomes(gate, applicable, PATH)[D2].why_null.startswith("not applicable")


def test_without_the_original_distribution_there_is_no_standard_verdict():
    standard, hidden = judge(rf.gate(tolerances(d1=None)), applicable=(D2, D3, D4))
    assert standard.verdict is None and "d1_original is not applicable" in standard.why_null
    assert hidden.verdict == "pass"


def test_a_reference_that_overflowed_on_this_very_trial_is_no_pass():
    gate = rf.gate(tolerances(d2=None))
    standard, hidden = judge(gate, applicable=ALL)
    assert standard.verdict == "pass"
    assert hidden.verdict is None and hidden.why_null.startswith("d2_scale_3: the reference was not finite")
    failing = rf.gate(tolerances(d2=None, d3=1.0))
    assert judge(failing, applicable=ALL)[1].verdict == "wrong_value"


@pytest.mark.parametrize(
    ("compiled", "gate", "expected"),
    [
        (None, None, "no compile record"),
        (rf.compiled(), None, "no hidden-gate record"),
        (rf.skipped(CompileRecord, "compile", "the problem is not usable"), None, "compile skipped: the problem is"),
        (rf.compiled(), rf.skipped(GateRecord, "hidden-gate", "no such thing"), "hidden-gate skipped: no such thing"),
    ],
)
def test_what_was_not_judged_says_why(compiled, gate, expected):
    for judgement in verdicts.judge(compiled, gate, ALL, 1e-3, PATH).values():
        assert judgement.verdict is None
        assert judgement.why_null.startswith(expected)


def test_the_worst_of_several_trials_counts():
    gate = rf.gate(tolerances())
    worse = gate.model_copy(update={"trials": (*gate.trials, *rf.gate({D1: 0.5}).trials)})
    assert verdicts.outcomes(worse, ALL, PATH)[D1].critical_tolerance == 0.5
    assert judge(worse)[0].verdict == "wrong_value"
    broken = gate.model_copy(update={"trials": (*gate.trials, *rf.gate({D1: "crash"}).trials), "verdict": "crash"})
    assert judge(broken)[0].verdict == "crash"


def test_records_that_cannot_be_true_name_file_and_field():
    with pytest.raises(RecordError, match=r"level1_1/0\.json: field trials: verdict pass without a trial of d4_negate"):
        judge(rf.gate({D1: 0.0, D2: 0.0, D3: 0.0}))
    with pytest.raises(RecordError, match=r"field trials\.1\.applicable: true for d2_scale_3"):
        judge(rf.gate(), applicable=(D1, D3, D4))
    empty = rf.gate().trials[0].model_copy(update={"critical_tolerance": None})
    with pytest.raises(RecordError, match=r"field trials\.0\.critical_tolerance: null"):
        judge(rf.gate().model_copy(update={"trials": (empty,)}))
