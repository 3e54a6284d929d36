"""Rows at another tau: exactly those that aggregating the same records at that tau gives."""

import random

import pytest
import record_factory as rf

from kbverified import kernel_table, protocol, tau_sweep
from kbverified.aggregation import AggregationSettings, aggregate_generator, candidate_row, load_problems
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.stages import GateRecord

PROBLEM = ProblemKey("kb", "level1_19")
KEY = CandidateKey("gen", "kb", "level1_19", 0)
TAUS = (1e-5, 1e-4, 1e-3, 1e-2)
ALL = tuple(protocol.DISTRIBUTIONS)


def settings(tau):
    return AggregationSettings(tau={"fp32": tau, "bf16": tau}, resamples=100)


def rows_by_tau(root, stages, **problem):
    """The row as aggregation writes it, by tau, and the problem audits."""
    rf.write_problem(root, PROBLEM, **problem)
    rf.write_candidate(root, KEY, stages)
    return {tau: candidate_row(root, KEY, settings(tau)) for tau in TAUS}, load_problems(root, [PROBLEM])


def assert_same_at_every_tau(rows, audits):
    for old, row in rows.items():
        for new, expected in rows.items():
            (found,) = tau_sweep.rows_at([row], {"fp32": new, "bf16": new}, audits)
            hardened_unknown = row["verdict_hidden"] != "pass" and expected["verdict_hidden"] == "pass"
            if hardened_unknown:
                assert (found["verdict_hardened"], found["why_null_verdict_hardened"]) == (None, tau_sweep.NO_HARDENED)
            for name in kernel_table.COLUMNS:
                if not (hardened_unknown and "hardened" in name):
                    assert found[name] == expected[name], (name, old, new)


def random_gate(draw, applicable):
    values = {}
    for name in ALL:
        kind = draw.random()
        value = 10 ** draw.uniform(-6, -1) if kind < 0.8 else draw.choice(["nonfinite", "crash", "wrong_shape"])
        values[name] = None if name not in applicable or (kind > 0.97 and name != ALL[0]) else value
    failures = [value for value in values.values() if isinstance(value, str)]
    verdict = failures[0] if failures else draw.choice(["pass"] * 9 + ["timeout"])
    if verdict == "timeout" and draw.random() < 0.5:
        values = {}
    elif verdict == "crash":  # what came after it was never run
        values = {name: values[name] for name in ALL[: list(values.values()).index("crash") + 1]}
    return rf.gate(values, verdict=verdict, detail=f"because of {verdict}", weights_match=draw.choice([True, False]))


@pytest.mark.parametrize("seed", range(60))
def test_any_gate_record_at_any_tau_is_as_aggregated(tmp_path, seed):
    draw = random.Random(seed)
    not_applicable = tuple(name for name in ALL if draw.random() < 0.1)
    gate = random_gate(draw, [name for name in ALL if name not in not_applicable])
    stages = rf.good_stages() | {"hidden-gate": gate}
    assert_same_at_every_tau(
        *rows_by_tau(tmp_path, stages, not_applicable=not_applicable, replay=10 ** draw.uniform(-6, -1))
    )


@pytest.mark.parametrize(
    "stages",
    [
        {},
        {"compile": rf.compiled("compile_error", "no such header")},
        {"compile": rf.compiled()},
        {"compile": rf.compiled(), "hidden-gate": rf.skipped(GateRecord, "hidden-gate", "too large")},
        {"compile": rf.compiled(), "hidden-gate": rf.gate({}, verdict="wrong_value", detail="by no tolerance")},
    ],
)
def test_what_no_tolerance_decided_stays(tmp_path, stages):
    assert_same_at_every_tau(*rows_by_tau(tmp_path, stages))


def test_without_an_audit(tmp_path):
    rf.write_candidate(tmp_path, KEY, rf.good_stages() | {"hidden-gate": rf.gate({ALL[0]: 5e-5, ALL[1]: 5e-4})})
    rows = {}
    for tau in TAUS[2:]:  # the two trials that are missing are no pass, and an error where the others pass
        with pytest.raises(ValueError, match="without a trial of d3"):
            candidate_row(tmp_path, KEY, settings(tau))
    values = {ALL[0]: 5e-5, ALL[1]: 5e-4, ALL[2]: None, ALL[3]: None}
    rf.write_candidate(tmp_path, KEY, rf.good_stages() | {"hidden-gate": rf.gate(values)})
    rows = {tau: candidate_row(tmp_path, KEY, settings(tau)) for tau in TAUS}
    assert [row["verdict_hidden"] for row in rows.values()] == ["wrong_value", "wrong_value", "pass", "pass"]
    assert_same_at_every_tau(rows, {})


def test_the_least_tau_that_passes(tmp_path):
    values = dict(zip(ALL, (2e-5, 3e-4, 1e-6, 5e-6)))
    rows, _ = rows_by_tau(tmp_path, rf.good_stages() | {"hidden-gate": rf.gate(values)})
    for row in rows.values():  # whatever the tau that the table was made at
        assert (tau_sweep.needed_tau(row, "standard"), tau_sweep.needed_tau(row, "hidden")) == (2e-5, 3e-4)
    crashed = rf.gate({ALL[0]: 2e-5, ALL[1]: "crash"}, verdict="crash")
    rows, _ = rows_by_tau(tmp_path, rf.good_stages() | {"hidden-gate": crashed})
    assert {tau_sweep.needed_tau(row, "standard") for row in rows.values()} == {2e-5}
    assert {tau_sweep.needed_tau(row, "hidden") for row in rows.values()} == {None}


def test_a_timed_output_beyond_tau_is_told_and_is_no_verdict(tmp_path):
    stages = rf.good_stages() | {"time-tf32": rf.timing("time-tf32", 1.0, 1.25, timed_critical_tolerance=3e-4)}
    rows, _ = rows_by_tau(tmp_path, stages)
    beyond = [tau_sweep.timed_beyond(rows[1e-3], "time-tf32", tau) for tau in (1e-4, 3e-4, 1e-3)]
    assert beyond == [True, False, False]
    assert not tau_sweep.timed_beyond(rows[1e-3], "time-fp32", 1e-4)  # another launch
    assert not tau_sweep.timed_beyond(rows[1e-3], "time-ieee", 1e-4)  # none at all
    assert rows[1e-4]["verdict_hidden"] == "pass"


def test_a_dtype_that_is_not_named_keeps_its_own(tmp_path):
    rows, audits = rows_by_tau(tmp_path, rf.good_stages())
    assert tau_sweep.rows_at([rows[1e-3]], {"bf16": 1e-5}, audits) == [rows[1e-3]]
    with pytest.raises(ValueError, match="not positive"):
        tau_sweep.rows_at([rows[1e-3]], {"fp32": 0.0}, audits)


def test_rows_fit_the_table(tmp_path):
    rows, audits = rows_by_tau(tmp_path, rf.good_stages() | {"hidden-gate": rf.gate(dict.fromkeys(ALL, 5e-4))})
    frame = aggregate_generator(tmp_path, "gen", [KEY], settings(1e-4))
    moved = kernel_table.frame(tau_sweep.rows_at(kernel_table.rows(frame), {"fp32": 1e-3}, audits))
    assert kernel_table.rows(moved)[0]["verdict_hidden"] == rows[1e-3]["verdict_hidden"] == "pass"
