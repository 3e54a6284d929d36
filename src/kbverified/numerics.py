"""The arithmetic that a candidate effectively used, from errors against the float64 oracle. Torch-free, no record.

``fp32``: as exact as float32. ``tf32``: as the reference with operands of products rounded to 10 mantissa bits, which
TF32 keeps and fp16 as well, both adding in float32. ``half``: as with 7 bits, which bf16 keeps; fp16 all through is as
far off. A problem without products has no ``tf32``: no TF32 unit computes it, and 10 bits there are fp16.
``undetermined``, with a reason: everything else.

The class is about the result. Three TF32 products that make up for each other's rounding are ``fp32``, and a kernel
that rounds once more than it need is named after that rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kbverified.protocol import NUMERICS_APART_RATIO, NUMERICS_ELEMENTS_MIN, NUMERICS_FP32_RATIO
from kbverified.records.trials import NumericsEvidence

NumericsClass = Literal["fp32", "tf32", "half", "undetermined"]

# rms of rounding once to float32, relative: errors below say nothing, and 0 has no logarithm.
_EXACT = 2.0**-25
# Three mantissa bits.
_TEN_TO_SEVEN = 8.0


@dataclass(frozen=True)
class Numerics:
    """``why`` says why the class is undetermined; None otherwise."""

    name: NumericsClass
    why: str | None = None


def classify(evidence: NumericsEvidence | None) -> Numerics:
    """The nearest of the arithmetics on a logarithmic scale, where they are far enough apart to tell."""
    if evidence is None:
        return _unknown("no figures in the gate's record")
    if evidence.why_none is not None:
        return _unknown(evidence.why_none)
    if evidence.candidate_rms_error is None or evidence.fp32_rms_error is None:
        return _unknown("the oracle is zero throughout")
    if evidence.elements is not None and evidence.elements < NUMERICS_ELEMENTS_MIN:
        return _unknown(f"an output of {evidence.elements} elements, fewer than {NUMERICS_ELEMENTS_MIN}")
    error, fp32 = max(evidence.candidate_rms_error, _EXACT), max(evidence.fp32_rms_error, _EXACT)
    if evidence.ten_bits_rms_error is None or evidence.seven_bits_rms_error is None:
        return _unknown("narrow arithmetic gives no finite output")
    narrow: NumericsClass = "tf32" if evidence.products else "half"
    anchors = [(evidence.ten_bits_rms_error, narrow), (evidence.seven_bits_rms_error, "half")]
    told = [(anchor, name) for anchor, name in anchors if anchor >= NUMERICS_APART_RATIO * fp32]
    if not told:
        return _unknown("rounding operands hardly changes this output")
    if error <= max(NUMERICS_FP32_RATIO * fp32, told[0][0] / _TEN_TO_SEVEN):
        return Numerics("fp32")
    anchor, nearest = min(told, key=lambda item: abs(math.log(item[0] / error)))
    if error < anchor / math.sqrt(_TEN_TO_SEVEN):
        return _unknown(f"relative rms error {error:.2g}: between float32's and that of {nearest}, {anchor:.2g}")
    if error > anchor * _TEN_TO_SEVEN:
        return _unknown(f"relative rms error {error:.2g}: more than narrow arithmetic explains ({anchor:.2g})")
    return Numerics(nearest)


def _unknown(why: str) -> Numerics:
    return Numerics("undetermined", why)
