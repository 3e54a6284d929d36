"""From the records of each candidate to one row, and from all rows of a generator to one table.

Here tau is applied and environments are compared; no stage ever reruns for either. A record that is corrupt, stale
or contradicts another is an error that names the file: nothing is dropped. A record that is missing or skipped is a
null with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from kbverified import arms, kernel_table, metrics, protocol, verdicts
from kbverified.candidate_records import (
    CandidateRecords,
    Environments,
    MixedEnvironments,
    load_problems,
    read_candidate,
    read_problem,
)
from kbverified.hardened.verdict import undecidable
from kbverified.kernel_table import MEMORY_FIELDS, column_name, write_parquet
from kbverified.keys import EVERY_STAGE, TIME_STAGES, Baseline, CandidateKey, ProblemKey, stages_with
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import CompileRecord, GateRecord, MemoryRecord, SideMemory, TimeRecord
from kbverified.roofline.columns import roofline_columns, withhold
from kbverified.scaled_columns import oracle_columns
from kbverified.static_view.columns import static_columns
from kbverified.static_view.reader import Reader

__all__ = [
    "AggregationSettings",
    "CandidateRecords",
    "MixedEnvironments",
    "aggregate_generator",
    "candidate_row",
    "load_problems",
    "write_parquet",
]


class AggregationSettings(BaseModel):
    """How records are interpreted. Changing any of it reruns aggregation only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tau: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=lambda: dict(protocol.TAU))
    """Tolerance per dtype: a critical tolerance of at most this passes."""
    allow_mixed: bool = False
    """Let records of different devices, drivers, torch, CUDA, protocols or gate modes into one table."""
    baselines: tuple[Baseline, ...] = ()
    """Optional baselines whose records are read, and whose arms are shown."""
    headline_arm: metrics.Arm = "matched"
    headline_test: verdicts.Test = "hidden"
    fast_p: tuple[float, ...] = protocol.FAST_P
    review_above: float = Field(default=10.0, gt=1)
    """Verified candidates with a larger speedup in any arm are listed for review (protocol.md)."""
    resamples: int = Field(default=protocol.BOOTSTRAP_RESAMPLES, ge=100)
    confidence: float = Field(default=protocol.CONFIDENCE, gt=0.5, lt=1)


# --- one row ------------------------------------------------------------------------------------------------


def candidate_row(root: Path, key: CandidateKey, settings: AggregationSettings) -> dict[str, Any]:
    """One candidate's row of the kernel table (columns: kernel_table.COLUMNS), read from its records.

    Raises RecordError for a corrupt, stale or contradictory record, naming file, field and value, and
    MixedEnvironments where its records come from different ones.
    """
    found = read_candidate(root, key, read_problem(root, key.problem_key), settings.baselines)
    if not settings.allow_mixed:
        environments = Environments()
        environments.add(found)
        environments.check()
    with Reader() as reader:
        return row_of(found, settings, reader)


def row_of(found: CandidateRecords, settings: AggregationSettings, reader: Reader) -> dict[str, Any]:
    """The row of records that are already read. Raises RecordError as candidate_row does, and as Reader.describe."""
    key = found.key
    row: dict[str, Any] = {
        "generator": key.generator,
        "suite": key.suite,
        "problem": key.problem,
        "sample": key.sample,
        "level": key.problem_key.level,
        "number": key.problem_key.number,
    }
    reasons: dict[str, str | None] = {}
    for part in (_identity, _problem, _verdicts, _timings, _memory, _environment):
        columns, why = part(found, settings)
        row |= columns
        reasons |= why
    problem_sha256 = found.problem.provenance.problem_sha256 if found.problem is not None else None
    columns, why = static_columns(found.root, key, row["candidate_sha256"], problem_sha256, reader)
    row |= columns
    reasons |= why
    return kernel_table.complete(row, reasons)


Part = tuple[dict[str, Any], dict[str, str | None]]
"""Columns of a row, and the reasons of the groups that have a null among them."""


def _dtype(found: CandidateRecords) -> str | None:
    return next((record.provenance.dtype for record in found.stages.values() if record is not None), None)


def _identity(found: CandidateRecords, settings: AggregationSettings) -> Part:
    shas = [r.provenance.candidate_sha256 for r in found.stages.values() if r is not None]
    evaluated = next((sha for sha in shas if sha is not None), None)
    dtype = _dtype(found)
    generation = found.generation
    columns: dict[str, Any] = {
        "candidate_sha256": evaluated or (generation.candidate_sha256 if generation else None),
        "dtype": dtype,
        "tau": settings.tau.get(dtype) if dtype else None,
    }
    reasons: dict[str, str | None] = {"candidate": None if dtype else "no stage record"}
    if generation is None:
        reasons["generation"] = f"no {found.key.metadata_path(Path('.'))}"
        return columns, reasons
    columns |= {
        "origin": generation.origin,
        "source": generation.source,
        "edited": evaluated != generation.candidate_sha256 if evaluated else None,
        "expected_verdict": generation.expected_verdict,
        "prompt_variant": generation.prompt.variant if generation.prompt else None,
        "prompt_targets": ", ".join(generation.prompt.targets) if generation.prompt else None,
    }
    reasons["generation"] = None if evaluated else "no stage record names the candidate's sha256"
    return columns, reasons


def non_discriminating(problem: ProblemRecord, tau: float | None) -> bool | None:
    """Whether another input's output passes on every applicable distribution at tau; None where not audited.

    The audit keeps the tolerances, so that another tau needs no new audit; without them its own flag stands.
    """
    replays = [d.replay_tolerance for d in problem.distributions if d.applicable]
    if tau is None or not replays or any(tolerance is None for tolerance in replays):
        return problem.non_discriminating
    return all(tolerance is not None and tolerance <= tau for tolerance in replays)


def _problem(found: CandidateRecords, settings: AggregationSettings) -> Part:
    problem = found.problem
    if problem is None:
        return {}, dict.fromkeys(("problem", "undecidable"), "no audit-problem record")
    dtype = _dtype(found)
    columns = {
        "problem_name": problem.name,
        "problem_sha256": problem.provenance.problem_sha256,
        "usable": problem.usable,
        "degenerate": problem.degenerate,
        "non_discriminating": non_discriminating(problem, settings.tau.get(dtype) if dtype else None),
        "undecidable": undecidable(problem, dtype) if dtype else None,
        "applicable_distributions": ", ".join(problem.applicable()),
    }
    why = problem.reason or problem.detail if problem.status == "skipped" or not problem.usable else None
    weak = None if columns["undecidable"] is not None else "the audit has no hardened law that applies"
    return columns, {"problem": f"audit-problem: {why}" if why else None, "undecidable": weak}


def _gate(found: CandidateRecords) -> GateRecord | None:
    record = found.stages["hidden-gate"]
    assert record is None or isinstance(record, GateRecord)
    return record


def _time(found: CandidateRecords, stage: str) -> TimeRecord | None:
    record = found.stages[stage]
    assert record is None or isinstance(record, TimeRecord)
    return record


def _verdicts(found: CandidateRecords, settings: AggregationSettings) -> Part:
    compiled, gate = found.stages["compile"], _gate(found)
    assert compiled is None or isinstance(compiled, CompileRecord)
    audited = found.problem is not None and found.problem.distributions
    applicable = found.problem.applicable() if found.problem is not None and audited else None
    path = found.path("hidden-gate")
    dtype = _dtype(found)
    judged = verdicts.judge(compiled, gate, applicable, settings.tau.get(dtype) if dtype else None, path, found.problem)
    columns: dict[str, Any] = {}
    reasons: dict[str, str | None] = {}
    for test, judgement in judged.items():
        columns[f"verdict_{test}"] = judgement.verdict
        columns[f"failed_{test}"] = ", ".join(judgement.failed) or None
        reasons[f"verdict_{test}"] = judgement.why_null
    columns["verdict_detail"] = judged["hidden"].detail
    columns["hardened_detail"] = judged["hardened"].detail if judged["hidden"].verdict == "pass" else None
    outcomes = verdicts.outcomes(gate, applicable, path) if gate is not None else {}
    stopped = verdicts.why_missing(compiled, "compile") if gate is None or gate.status == "skipped" else None
    stopped = stopped or verdicts.why_missing(gate, "hidden-gate") or "no trial"
    nulls = []
    for name in protocol.DISTRIBUTIONS:
        outcome = outcomes.get(name)
        columns[f"critical_tolerance_{name}"] = outcome.critical_tolerance if outcome else None
        if outcome is None or outcome.why_null:
            nulls.append(f"{name}: {outcome.why_null if outcome else stopped}")
    whole = stopped if len(nulls) == len(protocol.DISTRIBUTIONS) and not outcomes else "; ".join(nulls)
    reasons["critical_tolerance"] = whole or None
    columns["weights_match"] = gate.weights_match if gate is not None else None
    ran = gate is not None and gate.status == "ok"
    reasons["weights"] = "the state dicts do not correspond, or were not compared" if ran else stopped
    by_oracle, why = oracle_columns(gate, stopped)
    return {**columns, **by_oracle}, {**reasons, **why}


def _timings(found: CandidateRecords, settings: AggregationSettings) -> Part:
    columns: dict[str, Any] = {}
    reasons: dict[str, str | None] = {}
    timings = {}
    asked_for = stages_with(settings.baselines)
    times = {stage: _time(found, stage) if stage in asked_for else None for stage in TIME_STAGES}
    for stage in TIME_STAGES:
        if stage in asked_for:
            timing = arms.read_timing(stage, times[stage], found.path(stage))
        else:
            timing = arms.Timing(stage, None, f"{stage} not asked for: baselines does not name it")
        columns |= arms.timing_columns(timing, settings)
        reasons[column_name(stage)] = timing.why_null or arms.why_no_interval(timing, settings)
        timings[stage] = timing
    devices = [t.record.provenance.device for t in timings.values() if t.record is not None]
    kind = next((device.kind for device in devices if device is not None), None)
    arm, why = arms.arm_columns(timings, _dtype(found), kind, settings)
    flags, why_flags = arms.flag_columns(
        {"hidden-gate": _gate(found), **{stage: times[stage] for stage in TIME_STAGES if stage in asked_for}}
    )
    roof, why_roof = roofline_columns(found.root, found.problem, times, columns, reasons)
    columns, reasons = {**columns, **arm, **flags, **roof}, {**reasons, **why, **why_roof, "flags": why_flags}
    withhold(columns, reasons, kind)
    return columns, reasons


def _memory(found: CandidateRecords, settings: AggregationSettings) -> Part:
    record = found.stages["memory"]
    assert record is None or isinstance(record, MemoryRecord)
    why = verdicts.why_missing(record, "memory")
    if record is None or why:
        return {"memory_verdict": record.verdict if record is not None else None}, {"memory": why}
    sides = {"baseline": record.baseline or SideMemory(), "candidate": record.candidate or SideMemory()}
    columns: dict[str, Any] = {"memory_verdict": record.verdict}
    nulls = []
    for name in MEMORY_FIELDS:
        values = {side: getattr(memory, f"{name}_bytes") for side, memory in sides.items()}
        columns |= {f"memory_{side}_{name}_bytes": value for side, value in values.items()}
        columns[f"memory_ratio_{name}"] = metrics.ratio(values["baseline"], values["candidate"])
        nulls += [f"{side}.{name}_bytes is null" for side, value in values.items() if value is None]
        nulls += [f"{side}.{name}_bytes is 0" for side, value in values.items() if value == 0]
    return columns, {"memory": f"memory: {', '.join(nulls)}" if nulls else None}


def _environment(found: CandidateRecords, settings: AggregationSettings) -> Part:
    present = {stage: provenance for stage, _, provenance in found.present()}
    columns: dict[str, Any] = {
        f"protocol_digest_{column_name(stage)}": present[stage].protocol_digest if stage in present else None
        for stage in kernel_table.EVERY_DIGEST_STAGE
    }
    missing = [stage for stage in kernel_table.DIGEST_STAGES if stage not in present]
    reasons: dict[str, str | None] = {"protocol": f"no record of {', '.join(missing)}" if missing else None}
    stages = (*TIME_STAGES, "memory", "hidden-gate")
    on_device = [present[s] for s in stages if s in present and present[s].device is not None]
    any_stage = [present[s] for s in EVERY_STAGE if s in present]
    columns["package_version"] = any_stage[0].package_version if any_stage else None
    columns["gate_mode"] = present["hidden-gate"].mode if "hidden-gate" in present else None
    if not on_device or on_device[0].device is None:
        reasons["environment"] = "no stage of this candidate used a device"
        return columns, reasons
    device = on_device[0].device
    columns |= {
        "device_kind": device.kind,
        "device_name": device.name,
        "device_uuid": device.uuid,
        "driver": device.driver,
        "torch": device.torch,
        "cuda": device.cuda,
        "sandbox": on_device[0].sandbox,
    }
    if device.kind == "cpu":
        reasons["environment"] = "cpu: no uuid, driver and CUDA"
    return columns, reasons


# --- all rows -----------------------------------------------------------------------------------------------


def aggregate_generator(
    root: Path, generator: str, keys: Iterable[CandidateKey], settings: AggregationSettings
) -> pd.DataFrame:
    """The kernel table of one generator: one row per key, sorted by key, whatever the order of keys.

    Raises ValueError for a key of another generator or a key given twice, RecordError and MixedEnvironments as
    candidate_row does.
    """
    ordered = sorted(keys, key=lambda key: (key.suite, key.problem_key.level, key.problem_key.number, key.sample))
    for previous, key in zip([None, *ordered], ordered):
        if key.generator != generator:
            raise ValueError(f"candidate {key} is not one of generator {generator}")
        if key == previous:
            raise ValueError(f"candidate {key} is given twice")
    problems: dict[ProblemKey, ProblemRecord | None] = {}
    environments = Environments()
    rows: list[Mapping[str, Any]] = []
    with Reader() as reader:
        for key in ordered:
            if key.problem_key not in problems:
                problems[key.problem_key] = read_problem(root, key.problem_key)
            found = read_candidate(root, key, problems[key.problem_key], settings.baselines)
            environments.add(found)
            rows.append(row_of(found, settings, reader))
    if not settings.allow_mixed:
        environments.check()
    return kernel_table.frame(rows)
