"""From one candidate's timing records to medians, intervals and the speedup of each arm.

A speedup is the robust centre of the rounds' ratios, not a ratio of two times (round_statistics.py). Rounds that the
judge dropped count for nothing. What cannot be said is None with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kbverified import protocol, round_statistics, statistics
from kbverified.kernel_table import column_name
from kbverified.keys import BASELINE_STAGES, STAGE_MODES
from kbverified.metrics import EVERY_ARM, OPTIONAL_ARMS, Arm
from kbverified.records.base import FlagState
from kbverified.records.files import RecordError
from kbverified.records.stages import GateRecord, TimeRecord
from kbverified.round_statistics import Estimated, Interval, Rounds
from kbverified.verdicts import why_missing

# What each precision mode sets (protocol.md): matmul TF32, cuDNN TF32.
MODE_FLAGS = {"ieee": (False, False), "default": (False, True), "tf32": (True, True)}
PRECISION_FLAGS = ("matmul_tf32", "cudnn_tf32", "matmul_precision", "default_dtype")


class Settings(Protocol):
    """What of the aggregation's settings is needed here."""

    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True)
class Timing:
    """One timing record as far as it may be used; ``why_null`` says why it may not (then the rest is None)."""

    stage: str
    record: TimeRecord | None
    why_null: str | None
    baseline: Rounds = ()
    candidate: Rounds = ()
    """Repetitions of the rounds that count."""


@dataclass(frozen=True)
class Speedup:
    value: float | None
    interval: Interval | None
    why_null: str | None


def read_timing(stage: str, record: TimeRecord | None, path: Path) -> Timing:
    """The rounds of one timing record that count, if its times may be used (its verdict is pass).

    ``path`` is the record's file, for messages. Raises RecordError for a time that is not positive.
    """
    why = why_missing(record, stage)
    if record is None or why:
        return Timing(stage, record, why)
    kept = [r for r in record.rounds if r.baseline_ms and r.candidate_ms and not r.dropped]
    baseline, candidate = [r.baseline_ms for r in kept], [r.candidate_ms for r in kept]
    if not baseline:
        return Timing(stage, record, f"{stage}: no round with repetitions of both sides")
    if min(min(map(min, baseline)), min(map(min, candidate))) <= 0:
        raise RecordError(f"{path}: field rounds: a time of 0 ms or less. Delete the file and rerun to make it again.")
    return Timing(stage, record, None, baseline, candidate)


def timing_columns(timing: Timing, settings: Settings) -> dict[str, Any]:
    """The table's columns of one timing record; times are null where they may not be used."""
    prefix, record = column_name(timing.stage), timing.record
    if record is None or record.status == "skipped":
        return {}
    columns: dict[str, Any] = {
        f"{prefix}_verdict": record.verdict,
        f"{prefix}_mode": record.provenance.mode,
        f"{prefix}_baseline_name": baseline_name(record),
        f"{prefix}_baseline_disturbed": record.baseline_disturbed,
        f"{prefix}_interleaved": record.interleaved,
        f"{prefix}_rounds_dropped": record.rounds_dropped,
        f"{prefix}_outputs_verified": record.outputs_verified,
        f"{prefix}_critical_tolerance": record.timed_critical_tolerance,
    }
    if record.judge_bound is not None:
        columns[f"{prefix}_bound_outcome"] = record.judge_bound.outcome
        columns[f"{prefix}_bound_ms"] = record.judge_bound.t_judge_ms
        columns[f"{prefix}_undetected_gain_at_most"] = record.judge_bound.undetected_gain_at_most
    if (compiled := record.compiled_baseline) is not None:
        columns[f"{prefix}_compile_s"] = compiled.compile_s
        columns[f"{prefix}_graphs"] = compiled.graphs
        columns[f"{prefix}_graph_breaks"] = compiled.graph_breaks
        columns[f"{prefix}_answer_tolerance"] = compiled.critical_tolerance
    if not timing.baseline:
        return columns
    columns[f"{prefix}_rounds"] = len(timing.baseline)
    columns[f"{prefix}_baseline_alone_ms"] = statistics.median(record.baseline_alone_ms)
    for side, rounds in (("baseline", timing.baseline), ("candidate", timing.candidate)):
        columns |= interval_columns(f"{prefix}_{side}_ms", *round_statistics.time_of(rounds, settings.confidence))
    return columns


def baseline_name(record: TimeRecord) -> str | None:
    """What the baseline is and its mode, as ``reference(tf32)``."""
    what = "compiled reference" if record.compiled_baseline is not None else "reference"
    return f"{what}({record.provenance.mode})" if record.provenance.mode else None


def why_no_interval(timing: Timing, settings: Settings) -> str | None:
    """Why times that are there have no interval; None where they have one."""
    if not timing.baseline or len(timing.baseline) >= round_statistics.minimum_units(settings.confidence):
        return None
    return f"no interval: only {len(timing.baseline)} rounds"


def interval_columns(name: str, value: float | None, interval: Interval | None) -> dict[str, float | None]:
    low, high = interval if interval is not None else (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def arm_columns(
    timings: Mapping[str, Timing], dtype: str | None, kind: str | None, settings: Settings
) -> tuple[dict[str, Any], dict[str, str | None]]:
    """Speedup columns of every arm, and the reasons of what is null in them; ``timings`` by the names of the stages."""
    default, tf32 = timings["time-fp32"], timings["time-tf32"]
    columns: dict[str, Any] = {}
    reasons: dict[str, str | None] = {}
    from_default = dtype == "bf16"
    matched_from = default if from_default else tf32
    speedups: dict[Arm, Speedup] = {
        "naive": _in_one_record("naive", default, settings),
        "published": _published(default, tf32, kind, settings),
        "matched": _in_one_record("matched", matched_from, settings),
    }
    if speedups["naive"].value is not None and precision_changed(default.record):
        columns["speedup_flags_changed"] = speedups["naive"].value
        why = "the candidate changed precision flags in time-fp32: see speedup_flags_changed"
        speedups["naive"] = Speedup(None, None, why)
    speedups |= {arm: _optional(arm, timings[BASELINE_STAGES[arm]], settings) for arm in OPTIONAL_ARMS}
    for arm in EVERY_ARM:
        columns |= interval_columns(f"speedup_{arm}", speedups[arm].value, speedups[arm].interval)
        reasons[f"speedup_{arm}"] = speedups[arm].why_null
    if speedups["matched"].value is not None:
        columns["matched_from"] = matched_from.stage
    notes = []
    if kind == "cpu":
        notes.append("cpu: no TF32 unit, so the arms differ by noise only and are no finding")
    if from_default:
        notes.append("bf16: precision modes have no effect, matched is taken from time-fp32")
    if any(s.interval for s in speedups.values()) and protocol.BETWEEN_PROCESS_SD.get(kind or "") is None:
        notes.append("intervals hold no variance between processes: no A/A study of this kind of device yet")
    columns["arms_note"] = "; ".join(notes) or None
    return columns, reasons


def _optional(arm: Arm, timing: Timing, settings: Settings) -> Speedup:
    """An optional baseline's arm; a candidate that leaves the mode which it is named after has none."""
    if timing.baseline and precision_changed(timing.record):
        return Speedup(None, None, f"the candidate changed precision flags in {timing.stage}")
    return _in_one_record(arm, timing, settings)


def _in_one_record(arm: Arm, timing: Timing, settings: Settings) -> Speedup:
    """Both sides from one record, paired by rounds: every arm but the published one."""
    if not timing.baseline or timing.record is None:
        return Speedup(None, None, timing.why_null)
    mode = timing.record.provenance.mode
    wanted = STAGE_MODES[timing.stage]
    if mode != wanted:
        return Speedup(None, None, f"{timing.stage} ran in mode {mode}; the {arm} arm is defined in {wanted}")
    estimate = round_statistics.paired_ratio(timing.baseline, timing.candidate, settings.confidence)
    return _speedup(estimate, timing, settings, len(timing.baseline))


def _published(default: Timing, tf32: Timing, kind: str | None, settings: Settings) -> Speedup:
    """Reference(tf32) of one job over candidate(default) of another: only on one and the same GPU."""
    if not default.baseline or not tf32.baseline or default.record is None or tf32.record is None:
        return Speedup(None, None, "; ".join(why for why in (default.why_null, tf32.why_null) if why))
    if kind == "cpu":
        return Speedup(None, None, "cpu: the published arm crosses two jobs and is defined on one GPU")
    mode = default.record.provenance.mode
    if mode != "default":
        return Speedup(None, None, f"time-fp32 ran in mode {mode}; the published arm is defined in default")
    uuids = [
        t.record.provenance.device.uuid if t.record and t.record.provenance.device else None for t in (default, tf32)
    ]
    if None in uuids or uuids[0] != uuids[1]:
        names = " and ".join(str(uuid) for uuid in uuids)
        return Speedup(None, None, f"not the same GPU: time-fp32 and time-tf32 ran on {names}")
    estimate = round_statistics.unpaired_ratio(tf32.baseline, default.candidate, settings.confidence)
    return _speedup(estimate, default, settings, min(len(tf32.baseline), len(default.baseline)))


def _speedup(estimate: Estimated, timing: Timing, settings: Settings, rounds: int) -> Speedup:
    """With the variance between processes that this kind of device is known to have."""
    device = timing.record.provenance.device if timing.record else None
    sd = protocol.BETWEEN_PROCESS_SD.get(device.kind) if device else None
    value, interval = round_statistics.with_variance_between(estimate, sd, settings.confidence)
    return Speedup(value, interval, None if interval else f"no interval: only {rounds} rounds")


# --- flags --------------------------------------------------------------------------------------------------


def flag_columns(records: Mapping[str, GateRecord | TimeRecord | None]) -> tuple[dict[str, Any], str | None]:
    """Whether the candidate changed global flags in any stage, by the name of the stage; and why not known."""
    seen = {stage: record for stage, record in records.items() if record is not None and record.flags_after is not None}
    if not seen:
        whys = [why_missing(record, stage) or f"{stage}: no flags" for stage, record in records.items()]
        return {}, "; ".join(whys)
    changed = [stage for stage, record in seen.items() if _changed(record, tuple(FlagState.model_fields))]
    return {
        "flags_changed": bool(changed),
        "precision_flags_changed": any(precision_changed(record) for record in seen.values()),
        "flags_changed_in": ", ".join(changed) or None,
    }, None


def precision_changed(record: GateRecord | TimeRecord | None) -> bool:
    """Whether flags that change fp32 arithmetic differ after the stage from before, or from its mode."""
    return record is not None and _changed(record, PRECISION_FLAGS)


def _changed(record: GateRecord | TimeRecord, names: tuple[str, ...]) -> bool:
    after, before = record.flags_after, record.flags_before
    if after is None:
        return False
    if before is not None and any(getattr(after, name) != getattr(before, name) for name in names):
        return True
    expected = MODE_FLAGS.get(record.provenance.mode or "")
    return expected is not None and (after.matmul_tf32, after.cudnn_tf32) != expected
