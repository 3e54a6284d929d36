"""Records as the stages write them, of realistic size, for tests of archives and of what moves them about."""

from __future__ import annotations

import hashlib
import random
import struct
from pathlib import Path

from kbverified import protocol
from kbverified.keys import STAGES, CandidateKey, ProblemKey
from kbverified.records.base import DeviceInfo, FlagState, Provenance, Record
from kbverified.records.ceilings import CeilingRun, Ceilings
from kbverified.records.files import write
from kbverified.records.generation import Generation
from kbverified.records.problem import DistributionAudit, ProblemRecord, TensorSpec
from kbverified.records.stages import Build, CompileRecord, GateRecord, MemoryRecord, SideMemory, TimeRecord
from kbverified.records.timing import Round
from kbverified.records.trials import TrialResult

DEVICE = DeviceInfo(
    kind="cuda",
    name="NVIDIA H200",
    uuid="GPU-6f0c9f0e-5a5e-1f0e-8e0e-0123456789ab",
    driver="580.159.04",
    torch="2.11.0+cu130",
    cuda="13.0",
    memory_bytes=150754820096,
)
FLAGS = FlagState(
    matmul_tf32=False,
    cudnn_tf32=True,
    matmul_precision="highest",
    cudnn_benchmark=False,
    deterministic=False,
    default_dtype="torch.float32",
)
STARTED = "2026-11-29T18:00:00+00:00"


def write_sources(root: Path, key: CandidateKey) -> None:
    """A problem and a candidate to have records of; metadata beside the candidate."""
    problem, candidate = key.problem_key.source_path(root), key.source_path(root)
    for path in (problem, candidate):
        path.parent.mkdir(parents=True, exist_ok=True)
    problem.write_text(f"# {key.problem_key}\n")
    candidate.write_text(f"# {key}\n")
    write(key.metadata_path(root), generation(root, key))


def generation(root: Path, key: CandidateKey) -> Generation:
    return Generation(
        origin="import",
        source=f"runs/some-run/level_{key.problem_key.level}_problem_{key.problem_key.number}_sample_{key.sample}_kernel.py",
        candidate_sha256=sha256(key.source_path(root)),
        extraction="verbatim",
    )


def ceilings(started_at: str = STARTED) -> Ceilings:
    where = Provenance(
        package_version="0.1.0",
        protocol_digest=protocol.digest("ceilings"),
        device=DEVICE,
        started_at=started_at,
        duration_s=3.2,
    )
    runs = (
        CeilingRun(what="copy", size=1 << 32, work=1 << 33, times_ms=(2.1, 2.0)),
        CeilingRun(what="matmul", mode="ieee", size=8192, work=2 * 8192**3, times_ms=(21.0,)),
        CeilingRun(what="matmul", dtype="bf16", size=8192, work=2 * 8192**3, times_ms=(1.5,)),
    )
    return Ceilings(provenance=where, cache_bytes=60 << 20, runs=runs)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(root: Path, stage: str, key: CandidateKey | ProblemKey, started_at: str = STARTED) -> Provenance:
    problem = key.problem_key if isinstance(key, CandidateKey) else key
    return Provenance(
        package_version="0.1.0",
        protocol_digest=protocol.digest(stage),
        problem_sha256=sha256(problem.source_path(root)),
        candidate_sha256=sha256(key.source_path(root)) if isinstance(key, CandidateKey) else None,
        device=DEVICE,
        mode="default",
        sandbox="full",
        started_at=started_at,
        duration_s=12.345678,
    )


def _event_ms(noise: random.Random, typical_ms: float) -> float:
    """CUDA events give float32, whose decimal form is long."""
    return struct.unpack("f", struct.pack("f", typical_ms * noise.gauss(1, 0.01)))[0]


def _rounds(noise: random.Random, typical_ms: float) -> tuple[Round, ...]:
    sides = [tuple(_event_ms(noise, typical_ms) for _ in range(20)) for _ in range(2 * protocol.TIMING_ROUNDS_MIN)]
    return tuple(
        Round(first="baseline" if n % 2 else "candidate", baseline_ms=sides[2 * n], candidate_ms=sides[2 * n + 1])
        for n in range(protocol.TIMING_ROUNDS_MIN)
    )


def stage_record(root: Path, stage: str, key: CandidateKey, started_at: str = STARTED) -> Record:
    """A passing record of a stage; every candidate and stage has its own numbers."""
    noise = random.Random(f"{key} {stage}")
    common = {"provenance": provenance(root, stage, key, started_at), "status": "ok", "verdict": "pass"}
    if stage == "compile":
        content = hashlib.sha256(str(key).encode()).hexdigest()
        build = Build(
            name=f"ext_{content[:12]}", key=content, seconds=noise.uniform(30, 90), log_tail="ninja: ok\n" * 40
        )
        return CompileRecord(**common, builds=(build,), build_directory=f".build/{content}", cpu_seconds=91.25)
    if stage == "hidden-gate":
        trials = tuple(
            TrialResult(
                distribution=name,
                critical_tolerance=noise.uniform(1e-7, 1e-3),
                max_abs_error=noise.uniform(1e-6, 1e-3),
                rms_relative_error=noise.uniform(1e-8, 1e-6),
                nan_count=0,
                inf_count=0,
                reference_rms=noise.uniform(0.1, 10),
            )
            for name in protocol.DISTRIBUTIONS
        )
        return GateRecord(**common, trials=trials, weights_match=True, flags_before=FLAGS, flags_after=FLAGS)
    if stage == "memory":
        side = SideMemory(
            allocator_peak_bytes=noise.randrange(10**9, 10**10),
            allocator_above_bytes=noise.randrange(10**8, 10**9),
            device_peak_bytes=noise.randrange(10**9, 10**10),
            device_above_bytes=noise.randrange(10**8, 10**9),
        )
        return MemoryRecord(**common, baseline=side, candidate=side, input_bytes=2**30, output_bytes=2**30)
    return TimeRecord(
        **common,
        stage=stage,
        rounds=_rounds(noise, noise.uniform(0.3, 30)),
        baseline_alone_ms=tuple(_event_ms(noise, 3.0) for _ in range(20)),
        baseline_disturbed=False,
        interleaved=True,
        outputs_verified=10,
        flags_before=FLAGS,
        flags_after=FLAGS,
    )


def audit(root: Path, key: ProblemKey, started_at: str = STARTED) -> ProblemRecord:
    noise = random.Random(str(key))
    return ProblemRecord(
        provenance=provenance(root, "audit-problem", key, started_at),
        status="ok",
        name=f"Problem {key.number}",
        level=key.level,
        usable=True,
        distributions=tuple(
            DistributionAudit(distribution=name, applicable=True, max_abs=noise.random(), rms=noise.random())
            for name in protocol.DISTRIBUTIONS
        ),
        degenerate=False,
        non_discriminating=False,
        inputs=(TensorSpec(shape=(4096, 393216), dtype="float32"),),
        outputs=(TensorSpec(shape=(4096, 393216), dtype="float32"),),
        inputs_made_on="device",
    )


def write_records(root: Path, key: CandidateKey, started_at: str = STARTED) -> None:
    """The audit of the problem and all stage records of the candidate, under root."""
    write(key.problem_key.record_path(root), audit(root, key.problem_key, started_at))
    for stage in STAGES:
        write(key.record_path(stage, root), stage_record(root, stage, key, started_at))


def members(root: Path) -> dict[str, bytes]:
    """Everything under results/ and the metadata under generations/, by name."""
    paths = [*root.glob("results/**/*.json"), *root.glob("generations/**/*.json")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
