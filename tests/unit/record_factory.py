"""Records made through the record classes, small and plain, for tests of what is derived from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbverified import protocol
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.base import DeviceInfo, FlagState, Provenance
from kbverified.records.ceilings import CeilingRun, Ceilings
from kbverified.records.files import write
from kbverified.records.generation import Generation
from kbverified.records.problem import DistributionAudit, HardenedAudit, InputNeed, ProblemRecord, TensorSpec
from kbverified.records.stages import CompileRecord, GateRecord, MemoryRecord, SideMemory, TimeRecord
from kbverified.records.timing import CompiledBaseline, JudgeBound, Round
from kbverified.records.trials import HardenedTrial, NumericsEvidence, OracleErrors, TrialResult

GPU = DeviceInfo(
    kind="cuda", name="H200", uuid="GPU-1", driver="580", torch="2.11.0", cuda="13.0", memory_bytes=1 << 37
)
CPU = DeviceInfo(kind="cpu", name="Xeon x2", torch="2.13.0", memory_bytes=1 << 33)
MODES = {
    "hidden-gate": "ieee",
    "time-fp32": "default",
    "time-tf32": "tf32",
    "time-ieee": "ieee",
    "time-compile": "tf32",
    "memory": "default",
}
SHA = "c" * 64
COMPILED = CompiledBaseline(
    backend="inductor",
    dynamic=False,
    fallback_random=True,
    compile_s=20.0,
    load_s=2.0,
    graphs=1,
    graph_breaks=0,
    from_caches=1,
    critical_tolerance=1e-5,
    rms_relative_error=1e-5,
)
AGREED = JudgeBound(
    outcome="agreed", k=8, batches=1, claim_ms=2.0, t_judge_ms=2.02, drift=1.0, undetected_gain_at_most=1.1
)


def provenance(stage: str, **changes: Any) -> Provenance:
    values: dict[str, Any] = {
        "package_version": "0.1.0",
        "protocol_digest": protocol.digest(stage),
        "problem_sha256": "p" * 64,
        "candidate_sha256": None if stage == "audit-problem" else SHA,
        "device": None if stage == "compile" else GPU,
        "mode": MODES.get(stage),
        "sandbox": "full",
        "started_at": "2026-01-01T00:00:00+00:00",
        "duration_s": 1.0,
    }
    return Provenance(**(values | changes))


def skipped(model: type, stage: str, reason: str, **changes: Any) -> Any:
    return model(stage=stage, provenance=provenance(stage, device=None, **changes), status="skipped", reason=reason)


def generation(**changes: Any) -> Generation:
    values: dict[str, Any] = {
        "origin": "bundled",
        "source": "a test",
        "candidate_sha256": SHA,
        "extraction": "verbatim",
    }
    return Generation(**(values | changes))


OTHER = OracleErrors(kind="fp64", scaled_error=0.5, reference_scaled_error=1e-6)
"""Of an output that is another one."""


def problem(
    key: ProblemKey, *, replay: float = 0.5, not_applicable: tuple[str, ...] = (), **changes: Any
) -> ProblemRecord:
    audits = tuple(
        DistributionAudit(distribution=name, applicable=name not in not_applicable, replay_tolerance=replay)
        for name in protocol.DISTRIBUTIONS
    )
    values: dict[str, Any] = {
        "provenance": provenance("audit-problem"),
        "status": "ok",
        "name": key.problem,
        "level": key.level,
        "usable": True,
        "degenerate": False,
        "non_discriminating": False,
        "distributions": audits,
        "hardened": (HardenedAudit(law="h1_scale_and_offset", applicable=True, replay=OTHER),),
    }
    return ProblemRecord(**(values | changes))


def ceilings(*, bandwidth: float = 4e12, cache_bytes: int | None = 60 << 20, **changes: Any) -> Ceilings:
    """Rates per second: memory as given, ieee 50, tf32 400 and bf16 800 TFLOP/s; slower repetitions beside the best."""

    def run(what: str, per_s: float, **more: Any) -> CeilingRun:
        work = 1 << 40
        best_ms = 1e3 * work / per_s
        return CeilingRun(what=what, size=4096, work=work, times_ms=(2 * best_ms, best_ms, 1.1 * best_ms), **more)

    runs = (
        run("copy", bandwidth),
        run("read", 0.5 * bandwidth),
        run("matmul", 50e12, mode="ieee"),
        run("matmul", 400e12, mode="tf32"),
        run("matmul", 800e12, dtype="bf16"),
    )
    where = provenance("ceilings", problem_sha256=None, candidate_sha256=None, sandbox=None, **changes)
    return Ceilings(provenance=where, cache_bytes=cache_bytes, runs=runs)


def needs(input_bytes: int, output_bytes: int, **changes: Any) -> dict[str, Any]:
    """Fields of an audit: one fp32 input and one fp32 output, all of which has to move."""
    values: dict[str, Any] = {
        "inputs": (TensorSpec(shape=(input_bytes // 4,), dtype="float32"),),
        "outputs": (TensorSpec(shape=(output_bytes // 4,), dtype="float32"),),
        "input_needs": (InputNeed(varying_bytes=input_bytes, probes=20, hits=20, needed_bytes=input_bytes),),
        "output_needed_bytes": (output_bytes,),
        "weight_needed_bytes": 0,
    }
    return values | changes


def compiled(verdict: str = "pass", detail: str | None = None, **changes: Any) -> CompileRecord:
    return CompileRecord(provenance=provenance("compile", **changes), status="ok", verdict=verdict, detail=detail)


def flags(matmul: bool, cudnn: bool, **changes: Any) -> FlagState:
    values: dict[str, Any] = {
        "matmul_tf32": matmul,
        "cudnn_tf32": cudnn,
        "matmul_precision": "high" if matmul else "highest",
        "cudnn_benchmark": False,
        "deterministic": False,
        "default_dtype": "float32",
    }
    return FlagState(**(values | changes))


_HARDENED = (
    HardenedTrial(
        distribution="h1_scale_and_offset",
        critical_tolerance=1e-6,
        oracle=OracleErrors(kind="fp64", scaled_error=2e-6, reference_scaled_error=1e-6),
    ),
)


def gate(
    tolerances: dict[str, float | str | None] | None = None,
    *,
    verdict: str = "pass",
    detail: str | None = None,
    weights_match: bool | None = True,
    flags_after: FlagState | None = None,
    hardened: tuple[HardenedTrial, ...] | None = None,
    hardened_why_not: str | None = None,
    **changes: Any,
) -> GateRecord:
    """tolerances: a number per distribution, a verdict that it failed with, or None for not applicable."""
    if tolerances is None:
        tolerances = dict.fromkeys(protocol.DISTRIBUTIONS, 1e-6)
    trials = tuple(
        TrialResult(
            distribution=name,
            applicable=value is not None,
            failure=value if isinstance(value, str) else None,
            critical_tolerance=None if isinstance(value, str) else value,
            oracle=OracleErrors(kind="fp64", scaled_error=2e-6, reference_scaled_error=1e-6)
            if isinstance(value, float)
            else None,
        )
        for name, value in tolerances.items()
    )
    ieee = flags(False, False)
    return GateRecord(
        provenance=provenance("hidden-gate", **changes),
        status="ok",
        verdict=verdict,
        detail=detail,
        trials=trials,
        hardened=_HARDENED if hardened is None else hardened,
        hardened_why_not=hardened_why_not,
        weights_match=weights_match,
        flags_before=ieee,
        flags_after=flags_after or ieee,
        numerics=NumericsEvidence(
            candidate_rms_error=2e-7,
            fp32_rms_error=1e-7,
            ten_bits_rms_error=3e-4,
            seven_bits_rms_error=2e-3,
            products=1,
            elements=4096,
        ),
    )


def timing(
    stage: str,
    baseline: float | list[tuple[float, ...]],
    candidate: float | list[tuple[float, ...]],
    *,
    rounds: int = 4,
    verdict: str = "pass",
    flags_after: FlagState | None = None,
    timed_critical_tolerance: float | None = 1e-6,
    **changes: Any,
) -> TimeRecord:
    """A timing record; a single number stands for that time in every repetition of every round."""
    if isinstance(baseline, float):
        baseline = [(baseline,) * 3] * rounds
    if isinstance(candidate, float):
        candidate = [(candidate,) * 3] * rounds
    before = flags(*{"ieee": (False, False), "default": (False, True), "tf32": (True, True)}[MODES[stage]])
    return TimeRecord(
        stage=stage,
        provenance=provenance(stage, **changes),
        status="ok",
        verdict=verdict,
        rounds=tuple(Round(first="baseline", baseline_ms=b, candidate_ms=c) for b, c in zip(baseline, candidate)),
        baseline_alone_ms=baseline[0],
        baseline_disturbed=False,
        interleaved=True,
        outputs_verified=rounds,
        timed_critical_tolerance=timed_critical_tolerance,
        flags_before=before,
        flags_after=flags_after or before,
        judge_wall_ms_per_launch=10.0,
        rounds_dropped=0,
        judge_bound=AGREED,
        compiled_baseline=COMPILED if stage == "time-compile" else None,
    )


def memory(baseline: int, candidate: int, *, verdict: str = "pass", **changes: Any) -> MemoryRecord:
    """Peaks in bytes; half of each lies above inputs and weights. The device sees 100 bytes more on both sides."""

    def side(peak: int) -> SideMemory:
        return SideMemory(
            allocator_peak_bytes=peak,
            allocator_above_bytes=peak // 2,
            device_peak_bytes=peak + 100,
            device_above_bytes=peak // 2 + 100,
        )

    return MemoryRecord(
        provenance=provenance("memory", **changes),
        status="ok",
        verdict=verdict,
        baseline=side(baseline),
        candidate=side(candidate),
        input_bytes=10,
        output_bytes=10,
    )


def good_stages() -> dict[str, Any]:
    """Every stage of a candidate that passes: naive 2x, published 0.5x, matched 0.8x, memory 2x."""
    return {
        "compile": compiled(),
        "hidden-gate": gate(),
        "time-fp32": timing("time-fp32", 4.0, 2.0),
        "time-tf32": timing("time-tf32", 1.0, 1.25),
        "memory": memory(2000, 1000),
    }


def write_candidate(root: Path, key: CandidateKey, stages: dict[str, Any] | None = None, **changes: Any) -> None:
    """Write metadata and stage records (a stage given as None is left out) of one candidate."""
    write(key.metadata_path(root), generation(**changes))
    for stage, record in (good_stages() if stages is None else stages).items():
        if record is not None:
            write(key.record_path(stage, root), record)


def write_problem(root: Path, key: ProblemKey, **changes: Any) -> None:
    write(key.record_path(root), problem(key, **changes))
