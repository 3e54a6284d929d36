"""The example's candidates as records: what the stages of a run on its device would have written."""

from __future__ import annotations

import math
from typing import Any

from kbverified import protocol
from kbverified.keys import STAGE_MODES
from kbverified.paper.example.audits import LAWS, provenance, sha256, source_of
from kbverified.paper.example.truth import BEFORE_THE_GATE, CandidateTruth, ProblemTruth
from kbverified.records.base import FlagState
from kbverified.records.generation import Generation
from kbverified.records.stages import CompileRecord, GateRecord, MemoryRecord, SideMemory, StageRecord, TimeRecord
from kbverified.records.timing import JudgeBound, Round
from kbverified.records.trials import HardenedTrial, NumericsEvidence, OracleErrors, TrialResult

NO_MEMORY = "synthetic: both sides did not fit the device"

# Six rounds, whose logarithms lie symmetrically: (what meets both sides, what meets the candidate alone). Every centre
# of them is 1, so that a record's speedup is the truth's, and its interval has a width.
_NOISE = ((0.004, 0.003), (-0.002, 0.001), (0.001, -0.002))
ROUNDS = tuple((sign * both, sign * alone) for both, alone in _NOISE for sign in (1.0, -1.0))

# Relative rms errors from which numerics.classify tells the arithmetic.
_RMS = {"fp32": 2e-7, "tf32": 3e-4, "half": 2e-3}


def generation(truth: CandidateTruth) -> Generation:
    return Generation(
        origin="import", source="synthetic", candidate_sha256=sha256(source_of(truth)), extraction="verbatim"
    )


def stages(truth: CandidateTruth, problem: ProblemTruth) -> dict[str, StageRecord]:
    """The records of a candidate's stages, by name."""
    why: str | None = None if problem.usable else "the problem is not usable: get_inputs raises"
    found: dict[str, StageRecord] = {}
    early = truth.failure if truth.failure in BEFORE_THE_GATE else None
    found["compile"] = CompileRecord(
        provenance=provenance("compile", problem, truth, ran=why is None), **_outcome(why, early)
    )
    why = why or (f"compile: {early}" if early else None)
    found["hidden-gate"] = (
        gate(truth, problem)
        if why is None
        else GateRecord(provenance=provenance("hidden-gate", problem, truth, ran=False), **_outcome(why))
    )
    why = why or _nothing_to_time(truth)
    tf32 = "TF32 has no effect on bf16" if truth.dtype == "bf16" else None
    found["time-fp32"] = timing("time-fp32", truth, problem, why)
    found["time-tf32"] = timing("time-tf32", truth, problem, why or tf32)
    found["memory"] = memory(truth, problem, why or (NO_MEMORY if truth.memory_ratio is None else None))
    return found


def _outcome(skipped: str | None, verdict: str | None = None) -> dict[str, Any]:
    if skipped is not None:
        return {"status": "skipped", "reason": skipped}
    return {"status": "ok", "verdict": verdict or "pass", "detail": f"synthetic {verdict}" if verdict else None}


def _nothing_to_time(truth: CandidateTruth) -> str | None:
    """As stages.py decides it: the answer under the original inputs counts."""
    if truth.failure is not None and truth.failure_from is None:
        return f"hidden-gate: {truth.failure}"
    worst = truth.tolerances[protocol.STANDARD_DISTRIBUTION]
    if worst > protocol.TIMING_WORTHLESS_TOLERANCE:
        return f"hidden-gate: wrong_value (critical tolerance {worst:.2g} under the original inputs)"
    return None


def gate(truth: CandidateTruth, problem: ProblemTruth) -> GateRecord:
    applies = {name: name in problem.applicable for name in protocol.DISTRIBUTIONS}
    if truth.failure is not None and truth.failure_from is None:
        first = protocol.STANDARD_DISTRIBUTION
        trials = [TrialResult(distribution=first, failure=truth.failure, detail=f"synthetic {truth.failure}")]  # type: ignore[arg-type]
    else:
        trials = [
            _trial(name, truth) if ok else TrialResult(distribution=name, applicable=False)
            for name, ok in applies.items()
        ]
    flags = _flags("ieee")
    compared = truth.failure is None or truth.failure_from is not None
    return GateRecord(
        provenance=provenance("hidden-gate", problem, truth),
        **_outcome(None, truth.failure),
        trials=tuple(trials),
        hardened=_hardened(truth) if compared else (),
        hardened_why_not=None if compared else "nothing was compared",
        weights_match=True,
        flags_before=flags,
        flags_after=flags,
        numerics=NumericsEvidence(
            candidate_rms_error=_RMS[truth.numerics],
            fp32_rms_error=1e-7,
            ten_bits_rms_error=_RMS["tf32"],
            seven_bits_rms_error=_RMS["half"],
            products=1,
            elements=4096,
        )
        if truth.dtype == "fp32" and compared
        else None,
    )


def _trial(name: str, truth: CandidateTruth) -> TrialResult:
    if name == truth.failure_from:
        return TrialResult(distribution=name, failure="nonfinite", detail="synthetic: Inf where the reference has none")
    tolerance = truth.tolerances[name]
    errors = OracleErrors(kind="fp64", scaled_error=tolerance / 4, reference_scaled_error=1e-6)
    return TrialResult(
        distribution=name, critical_tolerance=tolerance, max_abs_error=2 * tolerance, reference_rms=1.0, oracle=errors
    )


def _hardened(truth: CandidateTruth) -> tuple[HardenedTrial, ...]:
    """Two laws; who fails does so under the second."""
    allowed = protocol.SCALED_LIMIT_FLOOR[truth.dtype]
    return tuple(
        HardenedTrial(
            distribution=law,
            critical_tolerance=1e-6,
            oracle=OracleErrors(
                kind="fp64",
                scaled_error=allowed / 100 if truth.hardened_ok or law == LAWS[0] else 100 * allowed,
                reference_scaled_error=1e-6,
            ),
        )
        for law in LAWS
    )


def _flags(mode: str) -> FlagState:
    matmul, cudnn = {"ieee": (False, False), "default": (False, True), "tf32": (True, True)}[mode]
    return FlagState(
        matmul_tf32=matmul,
        cudnn_tf32=cudnn,
        matmul_precision="high" if matmul else "highest",
        cudnn_benchmark=False,
        deterministic=False,
        default_dtype="float32",
    )


def timing(stage: str, truth: CandidateTruth, problem: ProblemTruth, skipped: str | None) -> TimeRecord:
    speedup, baseline_ms = {
        "time-fp32": (truth.speedup_default, problem.baseline_default_ms),
        "time-tf32": (truth.speedup_tf32, problem.baseline_tf32_ms),
    }[stage]
    head: dict[str, Any] = {"stage": stage, "provenance": provenance(stage, problem, truth, ran=skipped is None)}
    if skipped is not None:
        return TimeRecord(**head, **_outcome(skipped))
    flags = _flags(STAGE_MODES[stage])
    claim_ms = baseline_ms / speedup if speedup else baseline_ms
    rounds = tuple(
        Round(
            first="baseline" if i % 2 else "candidate",
            baseline_ms=(baseline_ms * math.exp(both),),
            candidate_ms=(claim_ms * math.exp(both + alone),),
        )
        for i, (both, alone) in enumerate(ROUNDS)
    )
    return TimeRecord(
        **head,
        **_outcome(None, truth.why_no_time),
        rounds=rounds,
        baseline_alone_ms=(baseline_ms,),
        baseline_disturbed=False,
        interleaved=True,
        outputs_verified=len(rounds),
        timed_critical_tolerance=truth.tolerances[protocol.STANDARD_DISTRIBUTION],
        flags_before=flags,
        flags_after=flags,
        rounds_dropped=0,
        judge_bound=JudgeBound(
            outcome="agreed", k=8, batches=3, claim_ms=claim_ms, t_judge_ms=1.01 * claim_ms, drift=1.0,
            undetected_gain_at_most=1.1,
        ),
    )  # fmt: skip


def memory(truth: CandidateTruth, problem: ProblemTruth, skipped: str | None) -> MemoryRecord:
    where = provenance("memory", problem, truth, ran=skipped is None)
    if skipped is not None or truth.memory_ratio is None:
        return MemoryRecord(provenance=where, **_outcome(skipped))
    return MemoryRecord(
        provenance=where,
        **_outcome(None),
        input_bytes=problem.input_bytes,
        output_bytes=problem.output_bytes,
        baseline=_side(problem.peak_bytes, problem.input_bytes),
        candidate=_side(round(problem.peak_bytes / truth.memory_ratio), problem.input_bytes),
    )


def _side(peak: int, input_bytes: int) -> SideMemory:
    """The device holds a little more than torch's allocator has handed out."""
    above = peak - input_bytes // 2
    reserve = 1 << 21
    return SideMemory(
        allocator_peak_bytes=peak,
        allocator_above_bytes=above,
        device_peak_bytes=peak + reserve,
        device_above_bytes=above + reserve,
    )
