"""What one trial of the gate found: how far a candidate's output was from the reference's, and from the oracle's."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kbverified.records.base import Record, Verdict

OracleKind = Literal["fp64", "fp64_sliced", "reference", "none"]
"""What a trial was judged against beside the reference: the reference in float64, whole or cut along its batch; the
reference itself, where float64 gives no oracle; nothing, where the judge could not even do that."""


class OracleErrors(Record):
    """Errors of one trial against its oracle, worst over outputs. Whether they are too large is decided later."""

    kind: OracleKind
    why_not_fp64: str | None = None
    scaled_error: float | None = Field(default=None, ge=0)
    """Smallest m with |a-o| <= m * (scale + |o|), scale the oracle's rms per row. None: no floating-point output, or
    not finite."""
    reference_scaled_error: float | None = Field(default=None, ge=0)
    """... of the reference in the gate's arithmetic; for kind ``reference`` of itself on inputs moved by one ulp."""
    rms_error: float | None = Field(default=None, ge=0)
    """rms(a-o) / rms(o); None also where the oracle is zero throughout."""
    reference_rms_error: float | None = Field(default=None, ge=0)
    wrong_elements: int | None = Field(default=None, ge=0)
    """Of integer and bool outputs: neither the reference's nor the oracle's, nor a tie. None: there are none."""


class NumericsEvidence(Record):
    """Relative rms errors against the float64 oracle, worst over outputs, from which numerics.py names a class."""

    why_none: str | None = None
    candidate_rms_error: float | None = Field(default=None, ge=0)
    fp32_rms_error: float | None = Field(default=None, ge=0)
    """The reference as it is."""
    ten_bits_rms_error: float | None = Field(default=None, ge=0)
    """The reference with operands of products rounded to 10 mantissa bits; without products, inputs and outputs."""
    seven_bits_rms_error: float | None = Field(default=None, ge=0)
    products: int | None = Field(default=None, ge=0)
    """Products and convolutions that the reference's forward calls."""
    elements: int | None = Field(default=None, ge=0)
    """Of the smallest floating-point output."""


class TrialResult(Record):
    """One distribution, one trial: how far the candidate's output was from the reference's.

    Numbers are None where the outputs could not be compared; ``failure`` then says why.
    """

    distribution: str
    applicable: bool = True
    """False where the reference itself is not finite or raises (decided by the problem audit): never a pass."""
    failure: Verdict | None = None
    """A failure that no tolerance can mend. None: compare ``critical_tolerance`` with tau."""
    detail: str | None = None
    critical_tolerance: float | None = Field(default=None, ge=0)
    """Smallest tau with allclose(atol=tau, rtol=tau): max |a-b| / (1+|b|), b the reference."""
    max_abs_error: float | None = Field(default=None, ge=0)
    rms_relative_error: float | None = Field(default=None, ge=0)
    """rms(a-b) / rms(b)."""
    nan_count: int | None = None
    inf_count: int | None = None
    reference_rms: float | None = None
    oracle: OracleErrors | None = None
    """None where nothing was compared, and in older records."""


class HardenedTrial(TrialResult):
    """One trial under one of our own laws, whose parameters and weights nobody knew before: ``distribution`` names it.
    What is judged is ``oracle``: the critical tolerance beside it is for comparison."""

    parameters: dict[str, Any] = Field(default_factory=dict)
    """What was drawn for this trial: the law's own, told afterwards."""
    comparable: bool | None = None
    """Of the trial with other weights: whether the candidate's correspond to the reference's and are the same. It names
    the cause of a wrong answer, and excuses none. None: no correspondence, as of ``weights_match``."""

    @property
    def law(self) -> str:
        return self.distribution
