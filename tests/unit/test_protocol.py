"""Constants enter the digests of the stages whose records they shape, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbverified import keys, protocol

PACKAGE = Path(protocol.__file__).parent
CONSTANTS = {name for name in vars(protocol) if re.fullmatch(r"[A-Z][A-Z_]+", name)} - {"STAGE_CONSTANTS"}
# Applied to records: changing one reruns no stage.
INTERPRETING = {"TAU", "FAST_P", "BOOTSTRAP_RESAMPLES", "CONFIDENCE", "BETWEEN_PROCESS_SD", "ROOFLINE_MARGIN"}
INTERPRETING |= {
    "SCALED_LIMIT_FLOOR",
    "SCALED_LIMIT_FLOOR_FACTOR",
    "SCALED_LIMIT_MARGIN",
    "SCALED_LIMIT_SHARE_ELSEWHERE",
}
INTERPRETING |= {"NUMERICS_ELEMENTS_MIN", "NUMERICS_APART_RATIO", "NUMERICS_FP32_RATIO"}


def digests() -> dict[str, str]:
    return {stage: protocol.digest(stage) for stage in protocol.STAGE_CONSTANTS}


def another(value):
    if isinstance(value, dict):
        return {**value, "another": 1.0}
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value, 1)
    return 2 * value + 1


@pytest.mark.parametrize("name", sorted(CONSTANTS - {"SCHEMA_VERSION"}))
def test_a_constant_changes_the_digests_of_its_stages_only(monkeypatch, name):
    before = digests()
    monkeypatch.setattr(protocol, name, another(getattr(protocol, name)))
    changed = {stage for stage, value in digests().items() if value != before[stage]}
    assert changed == {stage for stage, names in protocol.STAGE_CONSTANTS.items() if name in names}


def test_the_schema_changes_every_digest(monkeypatch):
    before = digests()
    monkeypatch.setattr(protocol, "SCHEMA_VERSION", protocol.SCHEMA_VERSION + 1)
    assert all(value != before[stage] for stage, value in digests().items())


def test_what_only_interprets_records_is_in_no_digest():
    used = {name for names in protocol.STAGE_CONSTANTS.values() for name in names}
    assert not used & INTERPRETING
    assert used <= CONSTANTS


def test_the_stages_are_those_of_the_keys():
    assert set(protocol.STAGE_CONSTANTS) == {"audit-problem", "ceilings", *keys.EVERY_STAGE}
    with pytest.raises(ValueError, match="'tune' is none of"):
        protocol.digest("tune")


def test_digests_repeat_and_are_sha256():
    assert digests() == digests()
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in digests().values())


SHARED = (
    "judge/stage.py",
    "judge/inputs.py",
    "judge/exchange.py",
    "judge/reference.py",
    "judge/party.py",
    "correctness.py",
    "distributions.py",
    "affinity.py",
    "sandbox/channel.py",
    "sandbox/output.py",
)
TIMING_JUDGES = (
    "judge/timing.py",
    "judge/rounds.py",
    "judge/side.py",
    "judge/bound.py",
    "judge/loose.py",
    "devices/cuda.py",
    *SHARED,
)
HARDENED = ("hardened/laws.py", "hardened/weights.py")
# Stage -> the modules of the judge that write its record. What they import from protocol must be in its digest.
JUDGES = {
    "audit-problem": (
        "judge/audit.py",
        "roofline/needs.py",
        "judge/reference.py",
        "correctness.py",
        "distributions.py",
        *HARDENED,
        "judge/hardened_audit.py",
    ),
    "ceilings": ("roofline/ceilings.py",),
    "hidden-gate": (
        "judge/gate.py",
        "judge/trial.py",
        "judge/trial_errors.py",
        "judge/oracle.py",
        "judge/effective.py",
        "scaled_error.py",
        "judge/hardened.py",
        *HARDENED,
        *SHARED,
    ),
    "time-fp32": TIMING_JUDGES,
    "time-tf32": TIMING_JUDGES,
    "time-ieee": TIMING_JUDGES,
    "time-compile": (*TIMING_JUDGES, "judge/compiled.py"),
    "memory": ("judge/memory.py", "judge/loose.py", *SHARED),
    "compile": ("judge/build.py", "source_check.py", "sandbox/channel.py", "sandbox/output.py"),
}


@pytest.mark.parametrize("stage", JUDGES)
def test_what_a_judge_reads_of_the_protocol_is_in_its_digest(stage):
    for module in JUDGES[stage]:
        words = set(re.findall(r"\b[A-Z][A-Z_]+\b", (PACKAGE / module).read_text()))
        missing = (words & CONSTANTS) - set(protocol.STAGE_CONSTANTS[stage])
        assert not missing, f"{module} reads {missing}, which {stage}'s digest leaves out"


def test_the_published_values():
    """arXiv 2607.16241; a change here is a change of what is compared with the paper."""
    assert protocol.TAU == {"fp32": 1e-3, "bf16": 1e-2}
    assert list(protocol.DISTRIBUTIONS.values()) == [1.0, 3.0, 0.01, -1.0]
    assert protocol.FAST_P == (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
    assert protocol.DEGENERATE_MAX_ABS == 1e-6 and protocol.TIMING_ROUNDS_MIN >= 10
    assert protocol.STANDARD_DISTRIBUTION in protocol.DISTRIBUTIONS
