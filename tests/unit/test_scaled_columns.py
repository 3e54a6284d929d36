"""Columns that come from the oracle, with and without one."""

from __future__ import annotations

import record_factory as rf

from kbverified import kernel_table, protocol
from kbverified.records.stages import GateRecord
from kbverified.records.trials import NumericsEvidence, OracleErrors
from kbverified.scaled_columns import oracle_columns

FLOOR = protocol.SCALED_LIMIT_FLOOR["fp32"]
FP32 = NumericsEvidence(
    candidate_rms_error=2e-7, fp32_rms_error=1e-7, ten_bits_rms_error=3e-4, seven_bits_rms_error=2e-3,
    products=1, elements=4096,
)  # fmt: skip


def gate(numerics: NumericsEvidence | None = FP32, **errors: OracleErrors) -> GateRecord:
    record = rf.gate(dict.fromkeys(protocol.DISTRIBUTIONS, 1e-6))
    usual = OracleErrors(kind="fp64", scaled_error=2e-6, reference_scaled_error=1e-6)
    trials = [t.model_copy(update={"oracle": errors.get(t.distribution, usual)}) for t in record.trials]
    return record.model_copy(update={"trials": tuple(trials), "numerics": numerics})


def test_figures_and_class():
    columns, _ = oracle_columns(gate(), "")
    wanted = {*kernel_table.GROUPS["scaled_error"], *kernel_table.GROUPS["numerics"]}
    assert wanted <= set(columns) and all(columns[name] is not None for name in wanted)
    assert columns["scaled_error_d4_negate"] == 2e-6 and columns["reference_scaled_error_d4_negate"] == 1e-6
    assert (columns["numerics_class"], columns["numerics_remark"]) == ("fp32", None)
    assert columns["within_scaled_limit"] is True and columns["without_oracle"] is None


def test_one_distribution_beyond_the_limit_is_enough():
    beyond = OracleErrors(kind="fp64", scaled_error=2 * FLOOR, reference_scaled_error=1e-6)
    assert oracle_columns(gate(d4_negate=beyond), "")[0]["within_scaled_limit"] is False


def test_a_missing_oracle_is_remarked():
    fallback = OracleErrors(kind="reference", why_not_fp64="it raised", scaled_error=0.0, reference_scaled_error=1e-7)
    columns, _ = oracle_columns(gate(NumericsEvidence(why_none="it raised"), d1_original=fallback), "")
    assert columns["without_oracle"] == "d1_original: it raised"
    assert (columns["numerics_class"], columns["numerics_remark"]) == ("undetermined", "it raised")
    assert columns["within_scaled_limit"] is True


def test_integers_have_no_scaled_error_but_are_right_or_wrong():
    right = OracleErrors(kind="fp64", wrong_elements=0)
    columns, reasons = oracle_columns(gate(**dict.fromkeys(protocol.DISTRIBUTIONS, right)), "")
    assert columns["within_scaled_limit"] is True and columns["scaled_error_d1_original"] is None
    assert "no floating-point output" in (reasons["scaled_error"] or "")


def test_older_records_and_no_records_say_so():
    written = rf.gate().model_dump()
    del written["numerics"]
    for trial in written["trials"]:
        del trial["oracle"]
    older = GateRecord.model_validate(written)
    columns, reasons = oracle_columns(older, "")
    assert columns["within_scaled_limit"] is None and "older record" in (reasons["scaled_error"] or "")
    assert columns["numerics_class"] == "undetermined"
    assert oracle_columns(None, "no record") == ({}, {"scaled_error": "no record", "numerics": "no record"})
