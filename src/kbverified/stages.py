"""One stage of one candidate: read what came before, skip or run, write the record.

Nothing here imports torch: a skipped stage costs a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib
import os
import time
from pathlib import Path
from typing import Any

from kbverified import __version__, lease, protocol
from kbverified.judge.party import NotMeasurable, Settings
from kbverified.keys import STAGE_MODES
from kbverified.lease import Lease
from kbverified.records.base import Provenance
from kbverified.records.files import read, write
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import STAGE_MODELS, CompileRecord, GateRecord, StageRecord
from kbverified.sandbox import forked


class Clock:
    """When a stage started and how long it took."""

    def __init__(self) -> None:
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self._start = time.monotonic()

    def provenance(self, stage: str, problem_sha256: str | None, **fields: Any) -> Provenance:
        return Provenance(
            package_version=__version__,
            protocol_digest=protocol.digest(stage),
            problem_sha256=problem_sha256,
            started_at=self.started_at,
            duration_s=round(time.monotonic() - self._start, 3),
            evaluator=forked.source() is not None,
            **fields,
        )


def file_sha256(path: Path) -> str:
    """Sha256 (hex) of a file. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_stage(
    stage: str,
    candidate: Path,
    problem: Path,
    audit_path: Path,
    settings: Settings,
    out: Path,
    compiled_path: Path | None = None,
    gate_path: Path | None = None,
) -> StageRecord:
    """Run one stage and write its record.

    Raises RecordError for a broken input record, InfrastructureFault or OSError where no record can be made.
    """
    clock = Clock()
    sha = file_sha256(candidate)
    audit = read(audit_path, ProblemRecord)
    reason = _skip_reason(stage, audit, settings.dtype, compiled_path, gate_path)
    fields: dict[str, Any]
    if reason is not None:
        fields = {"status": "skipped", "reason": reason}
        where: dict[str, Any] = {}
    else:
        try:
            fields, where = _run(stage, candidate, sha, problem, audit_path, settings, compiled_path, gate_path)
            fields = {"status": "ok", **fields}
        except NotMeasurable as error:
            fields, where = {"status": "skipped", "reason": str(error)}, {}
    provenance = clock.provenance(stage, file_sha256(problem), candidate_sha256=sha, dtype=settings.dtype, **where)
    record = STAGE_MODELS[stage](stage=stage, provenance=provenance, **fields)
    write(out, record)
    return record


def imports_torch(
    stage: str, candidate: Path, audit_path: Path, dtype: str, compiled_path: Path | None, gate_path: Path | None
) -> bool:
    """Whether this stage will start a process that imports torch: it is not skipped, and has something to run.

    Raises as ``run_stage``.
    """
    if _skip_reason(stage, read(audit_path, ProblemRecord), dtype, compiled_path, gate_path) is not None:
        return False
    if stage != "compile":
        return True
    from kbverified.judge import build

    return build.asks_for_extension(candidate.read_bytes())


def stay_off_reserved_cores(device: str) -> dict[str, frozenset[int]]:
    """Imports and compilers run beside the cores that are kept for devices; returns those by the device's uuid.

    A stage moves to its device's cores when it holds the device. On a CPU device nothing is kept.
    """
    if device != "cuda":
        return {}
    from kbverified import affinity

    allowed = os.sched_getaffinity(0)
    gpus = affinity.sharing(allowed)
    shared = affinity.siblings(allowed)
    kept = affinity.reserved_cores(allowed, gpus, shared)
    affinity.pin(allowed - affinity.closed_to_others(kept.values(), shared))
    return kept


def _skip_reason(
    stage: str, audit: ProblemRecord, dtype: str, compiled_path: Path | None, gate_path: Path | None
) -> str | None:
    """Why a stage has nothing to do; None where it runs."""
    if not audit.usable:
        return f"the problem is not usable: {audit.detail}"
    if stage == "compile":
        return None
    if compiled_path is not None:
        compiled = read(compiled_path, CompileRecord)
        if compiled.verdict != "pass":
            return compiled.reason or f"compile: {compiled.verdict}"
    if stage == "hidden-gate":
        return None
    if stage == "time-tf32" and dtype == "bf16":
        return "TF32 has no effect on bf16"
    if stage == "time-ieee" and dtype == "bf16":
        return "the modes have no effect on bf16: ieee would be time-fp32 again"
    if gate_path is not None:
        return _gate_reason(read(gate_path, GateRecord))
    return None


def _gate_reason(gate: GateRecord) -> str | None:
    """Whether there is anything worth measuring: the original inputs decide.

    A candidate that is right under them and fails under a hidden distribution has a standard verdict of pass, and
    the arms that use the standard verdict need its time.
    """
    if gate.status == "skipped":
        return gate.reason
    original = [t for t in gate.trials if t.distribution == protocol.STANDARD_DISTRIBUTION]
    if gate.verdict != "pass" and (not original or any(t.failure is not None for t in original)):
        return f"hidden-gate: {gate.verdict}"
    worst = max((t.critical_tolerance for t in original if t.critical_tolerance is not None), default=None)
    if worst is not None and worst > protocol.TIMING_WORTHLESS_TOLERANCE:
        return f"hidden-gate: wrong_value (critical tolerance {worst:.2g} under the original inputs)"
    return None


def _run(
    stage: str,
    candidate: Path,
    sha: str,
    problem: Path,
    audit_path: Path,
    settings: Settings,
    compiled_path: Path | None,
    gate_path: Path | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a stage; (fields of its record, fields of its provenance)."""
    from kbverified.judge import build

    audit = read(audit_path, ProblemRecord)

    kept_cores = stay_off_reserved_cores(settings.device)
    if stage == "compile":
        return build.run(candidate, sha, audit, settings), {}
    lease.require(settings.device)
    lease.leave_driver_untouched()
    from kbverified.compilation import cache, toolchain
    from kbverified.compilation import directory as directories
    from kbverified.judge.stage import Job
    from kbverified.sandbox import reclaim

    mode = settings.gate_mode if stage == "hidden-gate" else STAGE_MODES.get(stage, "default")
    folder = directories.build_directory(settings.build_root, sha, toolchain.find(settings.arch))
    writable = stage == "hidden-gate"
    job = Job(stage, candidate, problem, audit, settings, folder, writable, mode=mode, kept_cores=kept_cores)
    if gate_path is not None:
        job.gate_error = _gate_error(read(gate_path, GateRecord))
    if stage == "time-compile":
        from kbverified.judge import compiled as baselines

        job.compiled = baselines.ready(problem, audit_path, settings)
    compiled = read(compiled_path, CompileRecord) if compiled_path is not None else None
    if writable and compiled is not None:
        job.builds_in_gate = compiled.deferred is not None
    # The folder itself goes only in a sweep: what a worker does in it is not taken for one.
    if compiled is not None and not folder.exists():
        if compiled.builds:
            build.run(candidate, sha, audit, settings)  # again, and before a device is held
        job.builds_in_gate = job.builds_in_gate or compiled.deferred is not None
    with cache.in_use(folder), directories.locked(folder) if writable else _unlocked(folder):
        try:
            job.spawn_workers()  # first, so that they import torch while this process does
            fields = _stage_module(stage).run(job)
        finally:
            job.end()
            if writable:
                reclaim(folder)
    device = job.device.info() if job.device is not None else None
    level = job.parties[0].level if job.parties else None
    where = {"device": device, "sandbox": level, "mode": mode, **lease_times(job.held)}
    if "device_hold_s" in where:
        where["device_hold_parts_s"] = job.hold_parts_s
    return fields, where


def _gate_error(gate: GateRecord) -> float | None:
    """The worst relative rms error under the original inputs; None where the gate has none."""
    errors = [t.rms_relative_error for t in gate.trials if t.distribution == protocol.STANDARD_DISTRIBUTION]
    known = [error for error in errors if error is not None]
    return max(known) if known else None


def lease_times(held: Lease | None) -> dict[str, Any]:
    """How long a stage waited for its device and held it (seconds), as provenance; nothing where it kept nobody off."""
    if held is None or not held.exclusive:
        return {}
    return {"device_wait_s": round(held.waited_s, 3), "device_hold_s": round(held.held_s, 3)}


def _unlocked(folder: Path) -> contextlib.AbstractContextManager[None]:
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext()


def _stage_module(stage: str) -> Any:
    name = {"hidden-gate": "gate", "memory": "memory"}.get(stage, "timing")
    return importlib.import_module(f"kbverified.judge.{name}")


def _name_and_level(problem: Path) -> tuple[str, int]:
    """From the manifest beside the problem; from its file name where the manifest does not list it."""
    from kbverified import keys, problems

    key = keys.ProblemKey.from_path(problem)
    manifest = problem.parent / "manifest.csv"
    rows = problems.read_manifest(manifest) if manifest.exists() else {}
    return (rows[key.problem].name if key.problem in rows else key.problem), key.level


def audit_problem(problem: Path, settings: Settings, out: Path) -> ProblemRecord:
    """Audit one problem and write its record; a broken problem is a record that says so.

    Raises InfrastructureFault where there is no device, OSError where the record cannot be written.
    """
    lease.require(settings.device)
    lease.leave_driver_untouched()
    from kbverified.judge import audit

    clock = Clock()
    name, level = _name_and_level(problem)
    stay_off_reserved_cores(settings.device)
    fields, device, held = audit.run(problem, settings)
    provenance = clock.provenance(
        "audit-problem", file_sha256(problem), device=device, mode=protocol.AUDIT_MODE, **lease_times(held)
    )
    record = ProblemRecord(provenance=provenance, status="ok", name=name, level=level, **fields)
    write(out, record)
    return record
