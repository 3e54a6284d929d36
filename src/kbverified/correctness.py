"""Candidate's output against the reference's: how far apart, in chunks, without a second copy of either.

Over chunks of protocol.COMPARE_CHUNK_ELEMENTS elements, on the device: integers and float64 in float64, whatever is
narrower in float32 with sums in float64. Each of difference, 1 + |b| and quotient is rounded once there, so that a
tolerance is known to three parts in 2^24, at a third of the memory traffic: outputs of gigabytes are compared while the
device is held. What float32 cannot hold is done again in float64.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import torch

from kbverified.protocol import COMPARE_CHUNK_ELEMENTS

# On a CPU, chunks whose temporaries stay in cache are ten times as fast.
_CACHED_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Comparison:
    """Of an answer a with a reference b of the same shape.

    ``critical_tolerance``: the smallest tau at which allclose(atol=tau, rtol=tau) holds: max |a-b| / (1+|b|).
    ``rms_relative_error``: rms(a-b) / rms(b), None where b is zero throughout.
    The three numbers are None where ``mismatched_nonfinite`` is not 0.
    """

    critical_tolerance: float | None
    max_abs_error: float | None
    rms_relative_error: float | None
    reference_rms: float | None
    reference_max_abs: float | None
    nan_count: int
    inf_count: int
    mismatched_nonfinite: int
    """Elements that are NaN or Inf on one side only, or Inf of the other sign."""
    reference_nonfinite: int
    equal: bool
    """Bitwise the same values (NaN counts as equal to NaN)."""


def compare(answer: torch.Tensor, reference: torch.Tensor, chunk: int = COMPARE_CHUNK_ELEMENTS) -> Comparison:
    """Compare two tensors of one shape. Integer and bool tensors are compared as numbers.

    Raises ValueError where the shapes differ: the caller has judged shape and dtype before.
    """
    if answer.shape != reference.shape:
        raise ValueError(f"shapes differ: {tuple(answer.shape)} and {tuple(reference.shape)}")
    a_flat, b_flat = answer.reshape(-1), reference.reshape(-1)
    total = _Sums()
    if answer.device.type == "cpu":
        chunk = min(chunk, _CACHED_ELEMENTS)
    for start in range(0, a_flat.numel(), chunk):
        total.add(a_flat[start : start + chunk], b_flat[start : start + chunk])
    return total.result(a_flat.numel())


def compare_all(answers: list[torch.Tensor], references: list[torch.Tensor]) -> Comparison:
    """The worst over the outputs of one launch, each against its reference. Raises ValueError as ``compare`` does,
    and where the two sides differ in number."""
    return combine([compare(a, b) for a, b in zip(answers, references, strict=True)])


def combine(parts: list[Comparison]) -> Comparison:
    """The worst of several outputs of one launch. Raises ValueError for an empty list."""
    if not parts:
        raise ValueError("nothing was compared")
    return Comparison(
        critical_tolerance=_worst([p.critical_tolerance for p in parts]),
        max_abs_error=_worst([p.max_abs_error for p in parts]),
        rms_relative_error=_worst([p.rms_relative_error for p in parts if p.rms_relative_error is not None] or [None]),
        reference_rms=_worst([p.reference_rms for p in parts]),
        reference_max_abs=_worst([p.reference_max_abs for p in parts]),
        nan_count=sum(p.nan_count for p in parts),
        inf_count=sum(p.inf_count for p in parts),
        mismatched_nonfinite=sum(p.mismatched_nonfinite for p in parts),
        reference_nonfinite=sum(p.reference_nonfinite for p in parts),
        equal=all(p.equal for p in parts),
    )


def _worst(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return max(known) if len(known) == len(values) else None


class _Sums:
    """Running totals over chunks, as Python floats: one read of the device per chunk."""

    def __init__(self) -> None:
        self.critical = self.largest = self.reference_largest = 0.0
        self.error_sq = self.reference_sq = 0.0
        self.nans = self.infs = self.mismatched = self.unusable = 0
        self.equal = True

    def add(self, a: torch.Tensor, b: torch.Tensor) -> None:
        narrow = all(t.is_floating_point() and t.element_size() <= 4 for t in (a, b))
        figures = _figures(a.float(), b.float()) if narrow else []
        if not figures or not all(map(math.isfinite, figures)):
            wide_a, wide_b = a.double(), b.double()
            if not torch.isfinite(wide_a.sum() + wide_b.sum()):
                wide_a, wide_b = self._without_nonfinite(wide_a, wide_b)
            figures = _figures(wide_a, wide_b)
        error, reference, largest, reference_largest, critical = figures
        self.error_sq += error * error
        self.reference_sq += reference * reference
        self.largest = max(self.largest, largest)
        self.reference_largest = max(self.reference_largest, reference_largest)
        self.critical = max(self.critical, critical)
        self.equal = self.equal and largest == 0.0

    def _without_nonfinite(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Count what is not finite; where the sides agree on it they agree, elsewhere they are mismatched."""
        both_fine = a.isfinite() & b.isfinite()
        agree = (a == b) | (a.isnan() & b.isnan())
        mismatched = ~agree & ~both_fine
        counts = [a.isnan().sum(), a.isinf().sum(), mismatched.sum(), (~b.isfinite()).sum()]
        nans, infs, wrong, unusable = torch.stack(counts).tolist()
        self.nans += nans
        self.infs += infs
        self.mismatched += wrong
        self.unusable += unusable
        self.equal = self.equal and wrong == 0
        return torch.where(both_fine, a, 0.0), torch.where(both_fine, b, 0.0)

    def result(self, count: int) -> Comparison:
        if not count:
            return Comparison(0.0, 0.0, None, None, None, 0, 0, 0, 0, True)
        good = self.mismatched == 0
        relative = math.sqrt(self.error_sq / self.reference_sq) if good and self.reference_sq > 0 else None
        return Comparison(
            critical_tolerance=_finite(self.critical) if good else None,
            max_abs_error=_finite(self.largest) if good else None,
            rms_relative_error=_finite(relative),
            reference_rms=_finite(math.sqrt(self.reference_sq / count)),
            reference_max_abs=self.reference_largest,
            nan_count=self.nans,
            inf_count=self.infs,
            mismatched_nonfinite=self.mismatched,
            reference_nonfinite=self.unusable,
            equal=self.equal,
        )


def _figures(a: torch.Tensor, b: torch.Tensor) -> list[float]:
    """Norms of a-b and of b, the largest of |a-b|, of |b| and of |a-b| / (1+|b|). One read of the device."""
    norm = torch.linalg.vector_norm
    error = a - b
    found = [norm(error, dtype=torch.float64), norm(b, dtype=torch.float64), norm(error, math.inf), norm(b, math.inf)]
    found.append(norm(error.div_(b.abs().add_(1.0)), math.inf))
    return torch.stack([figure.double() for figure in found]).tolist()


def _finite(value: float | None) -> float | None:
    """A number that a record can hold. Beyond float64's range it is capped: a candidate that is as wrong as that
    must not leave a record without any number to judge it by. None where there is none.
    """
    return min(value, sys.float_info.max) if value is not None and not math.isnan(value) else None
