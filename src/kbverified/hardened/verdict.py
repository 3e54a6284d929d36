"""The ``hardened`` verdict, from a gate's hardened trials: here, and only here, their limits are applied.

It is stricter than ``hidden``: a candidate that fails there fails here too, for the same reason. Beyond that, under laws
with secret parameters and other weights, the answer has to be as near to the float64 oracle as the arithmetic explains.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbverified.records import GateRecord, HardenedAudit, HardenedTrial, ProblemRecord
from kbverified.scaled_error import limit


@dataclass(frozen=True)
class Hardened:
    """What the hardened trials alone say. ``why_null``: why they say nothing."""

    verdict: str | None
    detail: str | None = None
    failed: tuple[str, ...] = ()
    """Laws."""
    why_null: str | None = None


def judge(gate: GateRecord, problem: ProblemRecord | None) -> Hardened:
    """The verdict of a gate that passed every distribution; ``problem`` is its audit, None where there is none."""
    if not gate.hardened:
        return Hardened(None, why_null=gate.hardened_why_not or "the gate's record has no hardened trials")
    if problem is not None and undecidable(problem, gate.provenance.dtype):
        return Hardened(None, why_null="undecidable: the output for other inputs passes under every hardened law")
    tried = [trial for trial in gate.hardened if trial.applicable and trial.comparable is not False]
    if not tried:
        return Hardened(None, why_null="no hardened law applies to this problem, or its weights cannot be compared")
    wrong = {trial.law: why for trial in tried if (why := _wrong(trial, gate.provenance.dtype))}
    if not wrong:
        return Hardened("pass")
    first = next(trial for trial in tried if trial.law in wrong)
    return Hardened(first.failure or "wrong_value", wrong[first.law], tuple(wrong))


def _wrong(trial: HardenedTrial, dtype: str) -> str | None:
    if trial.failure is not None:
        return f"{trial.law}: {trial.detail or trial.failure}"
    if trial.scaled_tolerance is None:
        return f"{trial.law}: nothing was compared"
    allowed = limit(dtype, trial.reference_scaled_tolerance)
    if trial.scaled_tolerance <= allowed:
        return None
    return f"{trial.law}: off by {trial.scaled_tolerance:.3g} of the output's scale, allowed {allowed:.3g}"


def undecidable(problem: ProblemRecord, dtype: str) -> bool | None:
    """Whether the output for other inputs would pass under every hardened law; None where no audit says it."""
    laws = [law for law in problem.hardened if law.applicable]
    return all(_replay_passes(law, dtype) for law in laws) if laws else None


def _replay_passes(law: HardenedAudit, dtype: str) -> bool:
    return law.replay_tolerance is not None and law.replay_tolerance <= limit(dtype, law.reference_scaled_tolerance)
