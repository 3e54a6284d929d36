"""What one device moves and computes per second: the record of the ``ceilings`` stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kbverified.records.base import Dtype, PrecisionMode, Provenance, Record


class CeilingRun(Record):
    """One kind of work, launched again and again on an otherwise idle device."""

    what: Literal["copy", "scale", "read", "write", "matmul"]
    mode: PrecisionMode | None = None
    """Of a matmul in fp32; None for bf16 and for memory."""
    dtype: Dtype = "fp32"
    size: int
    """Bytes of the buffer, or rows and columns of the square matrices."""
    work: int = Field(gt=0)
    """Bytes that one launch moves (copy and scale read and write), or its FLOPs."""
    times_ms: tuple[float, ...] = Field(min_length=1)

    def best_per_s(self) -> float:
        """Bytes or FLOPs per second of the fastest repetition."""
        return 1e3 * self.work / min(self.times_ms)


class Ceilings(Record):
    """What one device moves and computes per second, measured. Raw repetitions; rates are derived."""

    stage: Literal["ceilings"] = "ceilings"
    provenance: Provenance
    cache_bytes: int | None = None
    """Last-level cache of the device: L2 of a GPU, all L3 of a CPU. None where the system does not say."""
    ramp_s: float | None = None
    """As in TimeRecord."""
    threads: int | None = None
    """torch's threads on a CPU; None on a GPU."""
    runs: tuple[CeilingRun, ...] = Field(min_length=1)
