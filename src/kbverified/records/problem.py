"""The audit of a problem: whether it can be judged by, what goes in and comes out, and what it has to move."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kbverified.records.base import Provenance, Record, Status
from kbverified.records.trials import OracleErrors


class TensorSpec(Record):
    """Shape and dtype of one tensor, as ``float32``, ``int64``, ..."""

    shape: tuple[int, ...]
    dtype: str

    def numel(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n


class DistributionAudit(Record):
    """What the audit found about one input law, worst case over seeds."""

    distribution: str
    applicable: bool
    """False where the reference is not finite or raises."""
    why_not: str | None = None
    max_abs: float | None = None
    rms: float | None = None
    zeros_tolerance: float | None = None
    """Critical tolerance at which an all-zero answer passes."""
    mean_tolerance: float | None = None
    """... the reference's mean everywhere."""
    input_tolerance: float | None = None
    """... the first input itself; None where shapes differ."""
    replay_tolerance: float | None = None
    """... the output for other inputs (another seed)."""
    input_independent: bool | None = None
    """The outputs for two seeds are bitwise equal."""


class HardenedAudit(Record):
    """What one of our own laws tells answers apart by, on one problem."""

    law: str
    applicable: bool
    why_not: str | None = None
    positive: bool = False
    """The law's absolute values are taken: the reference is not finite for others."""
    replay: OracleErrors | None = None
    """Of the output for other inputs, as if a candidate had given it."""


class InputNeed(Record):
    """How much of one input has to be read, never too much: what no other draw holds, as far as it matters."""

    varying_bytes: int = Field(ge=0)
    """Sectors (protocol.NEEDS_SECTOR_BYTES) that differ between two draws. The rest is known beforehand."""
    probes: int = Field(ge=0)
    """Sectors of those in which NaN was put, one at a time."""
    hits: int = Field(ge=0)
    """How many of them changed the output."""
    needed_bytes: int = Field(ge=0)
    """0 also where the output does not depend on any input."""


class ProblemRecord(Record):
    """Audit of one problem."""

    stage: Literal["audit-problem"] = "audit-problem"
    provenance: Provenance
    status: Status
    reason: str | None = None
    name: str
    level: int
    usable: bool
    """False where the problem itself is broken (no get_inputs, raises): its candidates are skipped."""
    detail: str | None = None
    distributions: tuple[DistributionAudit, ...] = ()
    degenerate: bool | None = None
    non_discriminating: bool | None = None
    """Another input's output passes on every applicable distribution at protocol.NON_DISCRIMINATING_TAU."""
    hardened: tuple[HardenedAudit, ...] = ()
    """One for each law; empty in older records and where there was no time or memory for it."""
    inputs: tuple[TensorSpec | None, ...] = ()
    """None stands for an input that is no tensor."""
    outputs: tuple[TensorSpec, ...] = ()
    output_structure: Any = None
    """``tensor``, or a nesting of lists and dicts of ``tensor``."""
    init_inputs: Any = None
    """The constructor's arguments, encoded as they cross to a worker."""
    inputs_made_on: Literal["device", "cpu"] | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    weight_bytes: int | None = None
    min_bytes: int | None = None
    """Bytes that must move: inputs and weights once, outputs once."""
    flops: int | None = None
    """torch's counter on the reference; None where it sees nothing."""
    flops_matmul: int | None = None
    """Of these, what the matmul flag governs."""
    flops_cudnn: int | None = None
    """Of these, convolutions and recurrent layers, which cuDNN's flag governs."""
    weight_needed_bytes: int | None = None
    """Parameters and buffers that some operator of the forward takes; of a table at most the rows looked up."""
    input_needs: tuple[InputNeed | None, ...] | None = None
    """One for each entry of ``inputs``. None: memory was too short to find out, or an older record."""
    output_needed_bytes: tuple[int, ...] | None = None
    """One for each entry of ``outputs``: elements that differ between draws, a repeated dimension counted once."""
    needs_why_not: str | None = None
    """Why neither is known; None in older records."""
    reference_peak_bytes: int | None = None

    def applicable(self) -> tuple[str, ...]:
        return tuple(d.distribution for d in self.distributions if d.applicable)
