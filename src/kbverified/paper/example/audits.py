"""The example's device and problems as records: provenance, ceilings, audits."""

from __future__ import annotations

import hashlib
from typing import Any

from kbverified import protocol
from kbverified.keys import STAGE_MODES
from kbverified.paper.example.truth import (
    BANDWIDTH,
    BF16_FLOPS,
    CACHE_BYTES,
    IEEE_FLOPS,
    TF32_FLOPS,
    CandidateTruth,
    ProblemTruth,
)
from kbverified.records.base import DeviceInfo, Provenance
from kbverified.records.ceilings import CeilingRun, Ceilings
from kbverified.records.problem import DistributionAudit, HardenedAudit, InputNeed, ProblemRecord, TensorSpec
from kbverified.records.trials import OracleErrors

DEVICE = DeviceInfo(
    kind="cuda", name="synthetic device", uuid="GPU-synthetic", driver="0", torch="0", cuda="0", memory_bytes=1 << 37
)
LAWS = ("h1_scale_and_offset", "h3_spikes")


def source_of(truth: CandidateTruth) -> bytes:
    """A candidate's text: nothing that would run, and another one for each."""
    return f"# {truth.key.tail}\nclass ModelNew: ...\n".encode()


def problem_source(truth: ProblemTruth) -> bytes:
    return f'"""Synthetic: {truth.key}."""\n'.encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def provenance(stage: str, problem: ProblemTruth, candidate: CandidateTruth | None, ran: bool = True) -> Provenance:
    on_device = ran and stage not in ("compile",)
    return Provenance(
        package_version="0",
        protocol_digest=protocol.digest(stage),
        problem_sha256=sha256(problem_source(problem)),
        candidate_sha256=sha256(source_of(candidate)) if candidate else None,
        device=DEVICE if on_device else None,
        mode=({"hidden-gate": "ieee", "memory": "default", **STAGE_MODES}.get(stage) if ran else None),  # type: ignore[arg-type]
        dtype=candidate.dtype if candidate else "fp32",  # type: ignore[arg-type]
        sandbox="full" if ran else None,
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
    )


def ceilings() -> Ceilings:
    def run(what: Any, per_s: float, **more: Any) -> CeilingRun:
        work = 1 << 40
        return CeilingRun(what=what, size=4096, work=work, times_ms=(1e3 * work / per_s,), **more)

    runs = (
        run("copy", BANDWIDTH),
        run("matmul", IEEE_FLOPS, mode="ieee"),
        run("matmul", TF32_FLOPS, mode="tf32"),
        run("matmul", BF16_FLOPS, dtype="bf16"),
    )
    where = Provenance(
        package_version="0",
        protocol_digest=protocol.digest("ceilings"),
        device=DEVICE,
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
    )
    return Ceilings(provenance=where, cache_bytes=CACHE_BYTES, runs=runs)


def audit(truth: ProblemTruth) -> ProblemRecord:
    """What the audit would say: a replayed output is far off, but where the problem does not discriminate."""
    replay = 1e-5 if truth.non_discriminating else 0.5
    other = OracleErrors(kind="fp64", scaled_error=1e-6 if truth.undecidable else 0.5, reference_scaled_error=1e-6)
    applies = {name: name in truth.applicable for name in protocol.DISTRIBUTIONS}
    why = {True: None, False: "the reference is not finite"}
    measured = truth.usable
    return ProblemRecord(
        provenance=provenance("audit-problem", truth, None),
        status="ok",
        name=f"Synthetic {truth.key.problem}",
        level=truth.key.level,
        usable=truth.usable,
        detail=None if truth.usable else "get_inputs raises",
        distributions=tuple(
            DistributionAudit(
                distribution=name,
                applicable=ok,
                why_not=why[ok],
                max_abs=1e-8 if truth.degenerate else 1.0,
                zeros_tolerance=1e-8 if truth.degenerate else 0.7,
                mean_tolerance=1e-8 if truth.degenerate else 0.6,
                replay_tolerance=replay if ok else None,
                input_independent=truth.undecidable,
            )
            for name, ok in applies.items()
        )
        if measured
        else (),
        degenerate=truth.degenerate if measured else None,
        non_discriminating=truth.non_discriminating if measured else None,
        hardened=tuple(HardenedAudit(law=law, applicable=True, replay=other) for law in LAWS) if measured else (),
        inputs=(TensorSpec(shape=(truth.input_bytes // 4,), dtype="float32"),),
        outputs=(TensorSpec(shape=(truth.output_bytes // 4,), dtype="float32"),),
        input_needs=(InputNeed(varying_bytes=truth.input_bytes, probes=20, hits=20, needed_bytes=truth.input_bytes),),
        output_needed_bytes=(truth.output_bytes,),
        weight_needed_bytes=0,
        input_bytes=truth.input_bytes,
        output_bytes=truth.output_bytes,
        flops=truth.flops or None,
        flops_cudnn=truth.flops or None,
        reference_peak_bytes=truth.peak_bytes,
    )
