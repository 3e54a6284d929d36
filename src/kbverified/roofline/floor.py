"""The least time a problem can take on a device, and what a measured time is worth beside it. Pure and torch-free.

Two floors, both from bytes and ceilings (docs/decisions/0017-roofline.md):

- ``hard``: what no correct kernel can avoid, inputs and outputs moved once. A claim below it is implausible.
- ``floor``: that, the weights read once, and the reference's own FLOPs at the ceilings of the precision mode. A faster
  kernel is possible (fewer FLOPs by another algorithm, fewer bits); it is worth a look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kbverified.records.ceilings import Ceilings
from kbverified.records.problem import ProblemRecord

Bound = Literal["bytes", "flops"]


@dataclass(frozen=True)
class Rates:
    """Ceilings of one device in bytes and FLOPs per second, each the best of everything that was measured."""

    bandwidth: float
    ieee: float
    tf32: float
    """That of ieee where the device has no TF32 unit."""
    bf16: float
    cache_bytes: int | None
    cold_cache: bool
    """Whether flushing before a launch leaves no input in the cache. A CPU's may be larger than what is written."""


@dataclass(frozen=True)
class Floor:
    """Milliseconds below which a problem cannot be done."""

    floor_ms: float
    bound: Bound
    hard_ms: float


def rates(ceilings: Ceilings) -> Rates:
    """The best rate of each kind. Raises ValueError where one was not measured."""
    bandwidth = [r.best_per_s() for r in ceilings.runs if r.what != "matmul"]
    products: dict[str, list[float]] = {"ieee": [], "tf32": [], "bf16": []}
    for run in ceilings.runs:
        if run.what == "matmul":
            products["bf16" if run.dtype == "bf16" else run.mode or "ieee"].append(run.best_per_s())
    missing = [name for name in ("ieee", "bf16") if not products[name]] + ([] if bandwidth else ["copy"])
    if missing:
        raise ValueError(f"the ceilings have no {', '.join(missing)}")
    device = ceilings.provenance.device
    ieee = max(products["ieee"])
    return Rates(
        bandwidth=max(bandwidth),
        ieee=ieee,
        tf32=max([ieee, *products["tf32"]]),
        bf16=max(products["bf16"]),
        cache_bytes=ceilings.cache_bytes,
        cold_cache=device is not None and device.kind == "cuda",
    )


def floor_of(problem: ProblemRecord | None, rates: Rates, mode: str, dtype: str) -> Floor | str:
    """The floors of a problem in one precision mode and dtype, or why there are none."""
    if problem is None or problem.input_needs is None or problem.output_needed_bytes is None:
        return "the audit does not say what has to move"
    if rates.cache_bytes is None:
        return "the size of the device's cache is not known"
    inputs, outputs = needed_bytes(problem, dtype)
    weights = narrowed(problem.weight_needed_bytes or 0, "float32", dtype)
    hard_ms = _moving_ms(inputs, outputs, rates)
    bytes_ms = _moving_ms(inputs + weights, outputs, rates)
    flops_ms = _computing_ms(problem, rates, mode, dtype)
    if not max(bytes_ms, flops_ms):
        return "no floor: all that moves fits the cache, and no FLOPs are counted"
    if flops_ms > bytes_ms:
        return Floor(flops_ms, "flops", hard_ms)
    return Floor(bytes_ms, "bytes", hard_ms)


def needed_bytes(problem: ProblemRecord, dtype: str) -> tuple[int, int]:
    """Bytes of inputs to read and outputs to write. In bf16 what was float32 in the audit takes half."""
    inputs = sum(
        narrowed(need.needed_bytes, spec.dtype, dtype)
        for need, spec in zip(problem.input_needs or (), problem.inputs, strict=True)
        if need is not None and spec is not None
    )
    outputs = sum(
        narrowed(size, spec.dtype, dtype)
        for size, spec in zip(problem.output_needed_bytes or (), problem.outputs, strict=True)
    )
    return inputs, outputs


def narrowed(size_bytes: int, stored: str, dtype: str) -> int:
    """Bytes in a generator's dtype of what the audit, in fp32, saw as ``stored``."""
    return size_bytes // 2 if dtype == "bf16" and stored == "float32" else size_bytes


def _moving_ms(read: int, written: int, rates: Rates) -> float:
    """What must cross the memory's bus before a launch ends: outputs may stay in the cache, inputs are not there."""
    cache = rates.cache_bytes or 0
    crossing = read + max(0, written - cache) if rates.cold_cache else max(0, read + written - cache)
    return 1e3 * crossing / rates.bandwidth


def _computing_ms(problem: ProblemRecord, rates: Rates, mode: str, dtype: str) -> float:
    """The reference's FLOPs on the units that the mode gives them: ``default`` has TF32 in cuDNN, not in matmul.

    Different units work side by side: the longer counts.
    """
    matmul, cudnn = problem.flops_matmul or 0, problem.flops_cudnn or 0
    half = any(spec is not None and spec.dtype in ("float16", "bfloat16") for spec in problem.inputs)
    if dtype == "bf16" or half:
        return 1e3 * (matmul + cudnn) / rates.bf16
    if mode == "default" and rates.tf32 > rates.ieee:
        return 1e3 * max(matmul / rates.ieee, cudnn / rates.tf32)
    return 1e3 * (matmul + cudnn) / (rates.tf32 if mode == "tf32" else rates.ieee)


def below(time_ms: float, floor_ms: float, margin: float) -> bool:
    """Whether a time lies below a floor by more than the ceilings' own uncertainty."""
    return time_ms < floor_ms * (1.0 - margin)


def sol_score(baseline_ms: float, candidate_ms: float, floor_ms: float) -> float | None:
    """S = 1 / (1 + (t - floor) / (t_baseline - floor)): 0.5 for the baseline's speed, 1 at the floor, and not above.

    None where the baseline is at the floor or below: nothing is left to gain. Source: SOL-ExecBench's score (NVIDIA).
    """
    if baseline_ms <= floor_ms:
        return None
    return 1.0 / (1.0 + max(0.0, candidate_ms - floor_ms) / (baseline_ms - floor_ms))
