"""Errors of one trial against the oracle: of the candidate, and of the reference itself in the gate's arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kbverified.distributions import Inputs
from kbverified.judge import oracle
from kbverified.judge.effective import evidence
from kbverified.judge.oracle import Oracle
from kbverified.judge.reference import Reference
from kbverified.protocol import ORACLE_FLOPS_MAX, STANDARD_DISTRIBUTION
from kbverified.records.problem import ProblemRecord
from kbverified.records.trials import NumericsEvidence, OracleErrors
from kbverified.scaled_error import scaled_error, wrong_elements

Tensors = list[torch.Tensor]


class TrialErrors:
    """One candidate's errors, trial by trial. ``numerics``: of the first trial under the standard law, in fp32."""

    def __init__(self, reference: Reference, audit: ProblemRecord):
        self.reference = reference
        self.audit = audit
        self.numerics: NumericsEvidence | None = None
        self.flops_max: Mapping[str, float] = ORACLE_FLOPS_MAX
        """No float64 forward beyond so many FLOPs, by kind of device."""
        self.oracle_peak_bytes: int | None = None
        """Peak of the judge while it asked the oracle. What it may take then is the oracle's own rule, for nothing of
        the candidate's runs; None where nothing counts it, or before the first."""

    def of_trial(self, law: str, inputs: Inputs, expected: Tensors, answers: Tensors) -> OracleErrors:
        """Call it for trials whose answers are comparable. Raises only where the device is lost: what else could not be
        had is None, with why."""
        device = self.reference.device
        assert device is not None
        before = device.peak_bytes()
        device.reset_peak()
        try:
            return self._of_trial(law, inputs, expected, answers)
        except Exception as error:  # the judge's own lack of memory is no verdict and must not lose the record
            if device.is_lost(error):
                raise
            device.release_cached()
            return OracleErrors(kind="none", why_not_fp64=f"{type(error).__name__}: {error}"[:300])
        finally:
            peaks = [peak for peak in (self.oracle_peak_bytes, device.peak_bytes()) if peak is not None]
            self.oracle_peak_bytes = max(peaks, default=None)
            device.resume_peak(before)

    def _of_trial(self, law: str, inputs: Inputs, expected: Tensors, answers: Tensors) -> OracleErrors:
        found = oracle.consult(self.reference, self.audit, inputs, expected, self.flops_max)
        errors = errors_of(found, expected, answers)
        if law == STANDARD_DISTRIBUTION and self.numerics is None and self.reference.dtype == "fp32":
            self.numerics = self._numerics(found, inputs, expected, answers)
        return errors

    def _numerics(self, found: Oracle, inputs: Inputs, expected: Tensors, answers: Tensors) -> NumericsEvidence:
        if found.kind == "reference":
            return NumericsEvidence(why_none=f"no float64 oracle: {found.why_not_fp64}")
        try:
            return evidence(self.reference, inputs, expected, answers, found.outputs)
        except Exception as error:  # as above
            assert self.reference.device is not None
            if self.reference.device.is_lost(error):
                raise
            self.reference.device.release_cached()
            return NumericsEvidence(why_none=f"{type(error).__name__}: {error}"[:300])


def errors_of(found: Oracle, expected: Tensors, answers: Tensors) -> OracleErrors:
    """Of answers to the oracle's question; ``expected``: the reference's outputs."""
    floats = [i for i, t in enumerate(expected) if t.is_floating_point()]
    whole = [i for i in range(len(expected)) if i not in floats]
    mine = [scaled_error(answers[i], found.outputs[i]) for i in floats]
    theirs = [found.own[i] for i in floats if i in found.own]
    fp64 = found.outputs if found.kind != "reference" else None
    wrong = [wrong_elements(answers[i], expected[i], fp64[i] if fp64 else None, found.choices.get(i)) for i in whole]
    return OracleErrors(
        kind=found.kind,
        why_not_fp64=found.why_not_fp64,
        scaled_error=_worst([e.scaled for e in mine]),
        reference_scaled_error=_worst([e.scaled for e in theirs]),
        rms_error=_worst([e.rms for e in mine]),
        reference_rms_error=_worst([e.rms for e in theirs]),
        wrong_elements=sum(wrong) if whole else None,
    )


def _worst(values: list[float | None]) -> float | None:
    """The largest; None where one is missing, or there are none."""
    known = [v for v in values if v is not None]
    return max(known) if known and len(known) == len(values) else None
