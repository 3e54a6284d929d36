"""The ``hardened`` verdict, from all trials of a gate: here, and only here, the oracle's limits are applied.

It is stricter than ``hidden``: a candidate that fails there fails here too, for the same reason. Beyond that, under
the published distributions, under laws with secret parameters and with other weights, the answer has to be as near to
the float64 oracle as the gate's arithmetic explains.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbverified.records.problem import HardenedAudit, ProblemRecord
from kbverified.records.stages import GateRecord
from kbverified.records.trials import HardenedTrial, TrialResult
from kbverified.scaled_limit import limit, with_higher_floor, within


@dataclass(frozen=True)
class Said:
    """Whether one trial is right by the hardened test; None where it says nothing. ``why``: why it is wrong."""

    right: bool | None
    why: str | None = None


@dataclass(frozen=True)
class Hardened:
    """What a gate says of a candidate that passes ``hidden``. ``why_null``: why they say nothing."""

    verdict: str | None
    detail: str | None = None
    failed: tuple[str, ...] = ()
    """Laws and distributions."""
    why_null: str | None = None
    trials: tuple[Said, ...] = ()
    """Of each trial of the gate, those under the published distributions first; () without a verdict."""


def judge(gate: GateRecord, problem: ProblemRecord | None) -> Hardened:
    """The verdict of a gate that passed every distribution; ``problem`` is its audit, None where there is none."""
    if not gate.hardened:
        return Hardened(None, why_null=gate.hardened_why_not or "the gate's record has no hardened trials")
    if problem is not None and undecidable(problem, gate.provenance.dtype):
        return Hardened(None, why_null="undecidable: the output for other inputs passes under every hardened law")
    if not any(trial.applicable for trial in gate.hardened):
        return Hardened(None, why_null="no hardened law applies to this problem")
    dtype = gate.provenance.dtype
    trials: tuple[TrialResult, ...] = (*gate.trials, *gate.hardened)
    higher = with_higher_floor([(trial.distribution, trial.oracle) for trial in trials if trial.applicable], dtype)
    every = tuple(_said(trial, dtype, higher) if trial.applicable else Said(None) for trial in trials)
    wrong = [(trial, said.why) for trial, said in zip(trials, every, strict=True) if said.right is False]
    if not wrong:
        return Hardened("pass", trials=every)
    first, why = wrong[0]
    value = "weights_differ" if isinstance(first, HardenedTrial) and first.comparable is False else "wrong_value"
    failed = tuple(dict.fromkeys(trial.distribution for trial, _ in wrong))
    return Hardened(first.failure or value, why, failed, trials=every)


def _said(trial: TrialResult, dtype: str, higher: frozenset[str]) -> Said:
    name = trial.distribution
    if trial.failure is not None:
        return Said(False, f"{name}: {trial.detail or trial.failure}")
    errors, law = trial.oracle, name if name in higher else ""
    if errors is None:  # the judge had too little memory, and the trial says no more than that it ended well
        return Said(None)
    if (right := within(errors, dtype, law)) is not False:
        return Said(right)
    if errors.wrong_elements:
        return Said(False, f"{name}: {errors.wrong_elements} integers differ from the reference's, and are no ties")
    allowed = limit(dtype, errors.reference_scaled_error, law)
    return Said(False, f"{name}: off by {errors.scaled_error:.3g} of the output's scale, allowed {allowed:.3g}")


def undecidable(problem: ProblemRecord, dtype: str) -> bool | None:
    """Whether the output for other inputs would pass under every hardened law; None where no audit says it."""
    laws = [law for law in problem.hardened if law.applicable]
    higher = with_higher_floor([(law.law, law.replay) for law in laws], dtype)

    def passes(law: HardenedAudit) -> bool:
        return law.replay is not None and within(law.replay, dtype, law.law if law.law in higher else "") is True

    return all(map(passes, laws)) if laws else None
