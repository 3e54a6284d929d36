"""All that the page says of one candidate beyond its row: source, verdicts, times, memory, build logs, provenance.

Only lists and our own names as keys: whatever a candidate could choose stands as a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbverified import kernel_table
from kbverified.candidate_records import CandidateRecords
from kbverified.hardened.verdict import Said, judge
from kbverified.kernel_table import MEMORY_FIELDS, column_name
from kbverified.keys import TIME_STAGES
from kbverified.page import histogram
from kbverified.page.candidates import ENDS
from kbverified.page.packing import pairs, rounded
from kbverified.page.rule import Step
from kbverified.records.stages import CompileRecord, GateRecord, StageRecord, TimeRecord
from kbverified.records.trials import TrialResult
from kbverified.verdicts import Test

Row = Mapping[str, Any]
DIGITS = 5
SOURCE_LIMIT = 256 * 1024
"""Characters of one source that the page carries; candidates may be larger (CANDIDATE_SIZE_LIMIT_BYTES)."""
TEXT_LIMIT = 16 * 1024
"""Characters of one log or message: its end, where the cause stands."""


def of_candidate(found: CandidateRecords, row: Row, steps: Mapping[Test, Step]) -> dict[str, Any]:
    """One candidate's detail; ``row`` is its row of the kernel table. Raises OSError for an unreadable source."""
    return {
        "source": source_text(found.key.source_path(found.root), row["candidate_sha256"]),
        "tests": {test: {"why_null": step.why_null} for test, step in steps.items() if step.why_null},
        "verdict_detail": tail(row["verdict_detail"]),
        "hardened_detail": tail(row["hardened_detail"]),
        "trials": _trials(found),
        "stages": [_stage(name, record) for name, record in found.stages.items() if record is not None],
        "builds": _builds(found),
        "times": [shown for stage in TIME_STAGES if (shown := _times(found, row, stage)) is not None],
        "why_speedup": {
            name.removeprefix("why_null_speedup_"): value
            for name, value in row.items()
            if name.startswith("why_null_speedup_") and value is not None
        },
        "arms_note": row["arms_note"],
        "memory": _memory(row),
        "remarks": pairs([(name, row[name]) for name in kernel_table.REMARKS if name not in SHOWN_APART]),
        "static": pairs([(name, row[name]) for name in STATIC]),
        "numerics": pairs([(name, rounded_or_text(row[name])) for name in kernel_table.GROUPS["numerics"]]),
        "flags": pairs([(name, row[name]) for name in kernel_table.GROUPS["flags"]]),
        "provenance": _provenance(found, row),
    }


STATIC = ("static_kind", "static_language", "static_delegated_share", "static_labels", "static_delegated")
SHOWN_APART = {
    *(
        "verdict_detail",
        "hardened_detail",
        "static_labels",
        "static_delegated",
        "expected_verdict",
        "memory_verdict",
        "arms_note",
    ),
    *("failed_standard", "failed_hidden", "failed_hardened"),  # of one tau: the page has the trials
    *(f"{column_name(stage)}_verdict" for stage in TIME_STAGES),
}


def source_text(path: Path, sha256: str | None) -> dict[str, Any]:
    """``text``, and ``cut`` where it goes on; or ``why_none``: it is not there, or not what was judged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {"why_none": "The file is not there."}
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        return {"why_none": "The file is no longer the one that was judged: it was edited since."}
    text = data.decode("utf-8", errors="replace")
    return {"text": text[:SOURCE_LIMIT], "cut": max(0, len(text) - SOURCE_LIMIT), "bytes": len(data)}


def tail(text: str | None) -> str | None:
    """The end of a text that a worker or compiler wrote."""
    if text is None or len(text) <= TEXT_LIMIT:
        return text
    return f"[{len(text) - TEXT_LIMIT} characters before]\n{text[-TEXT_LIMIT:]}"


def rounded_or_text(value: Any) -> Any:
    return rounded(value, DIGITS) if isinstance(value, float) else value


def _trials(found: CandidateRecords) -> list[dict[str, Any]]:
    gate = found.stages["hidden-gate"]
    if not isinstance(gate, GateRecord):
        return []
    hardened = [{**_trial(t), "hardened": True, "comparable": t.comparable} for t in gate.hardened]
    shown = [*({**_trial(t), "hardened": False} for t in gate.trials), *hardened]
    # Without a hardened verdict the oracle's limits decide nothing.
    every = judge(gate, found.problem).trials or (Said(None),) * len(shown)
    return [
        {**trial, "right_by_oracle": said.right, "why_wrong": said.why if trial["failure"] is None else None}
        for trial, said in zip(shown, every, strict=True)
    ]


def _trial(trial: TrialResult) -> dict[str, Any]:
    errors = trial.oracle
    return {
        "law": trial.distribution,
        "applicable": trial.applicable,
        "failure": trial.failure,
        "detail": tail(trial.detail),
        "tolerance": trial.critical_tolerance,  # every bit: the page holds it against tau
        "max_abs_error": rounded(trial.max_abs_error, DIGITS),
        "rms_error": rounded(trial.rms_relative_error, DIGITS),
        "scaled_error": rounded(errors.scaled_error, DIGITS) if errors is not None else None,
        "reference_scaled_error": rounded(errors.reference_scaled_error, DIGITS) if errors is not None else None,
    }


def _stage(name: str, record: StageRecord) -> dict[str, Any]:
    where = record.provenance
    return {
        "stage": name,
        "status": record.status,
        "reason": tail(record.reason),
        "verdict": record.verdict,
        "detail": tail(record.detail),
        "output": tail(record.output_tail),
        "started_at": where.started_at,
        "duration_s": rounded(where.duration_s, 3),
        "mode": where.mode,
        "sandbox": where.sandbox,
        "protocol": where.protocol_digest[:16],
    }


def _builds(found: CandidateRecords) -> list[dict[str, Any]]:
    record = found.stages["compile"]
    if not isinstance(record, CompileRecord):
        return []
    return [
        {"name": b.name, "ok": b.ok, "cached": b.cached, "seconds": rounded(b.seconds, 3), "log": tail(b.log_tail)}
        for b in record.builds
    ]


def _times(found: CandidateRecords, row: Row, stage: str) -> dict[str, Any] | None:
    record, prefix = found.stages[stage], column_name(stage)
    if not isinstance(record, TimeRecord) or record.status == "skipped":
        return None
    names = ("baseline_ms", "candidate_ms")
    return {
        "stage": stage,
        "mode": record.provenance.mode,
        "verdict": record.verdict,
        "baseline_name": row[f"{prefix}_baseline_name"],
        "histogram": histogram.of_rounds(record.rounds),
        **{name: [rounded(row[f"{prefix}_{name}{end}"], DIGITS) for end in ENDS] for name in names},
        "rounds_dropped": record.rounds_dropped,
        "interleaved": record.interleaved,
        "baseline_disturbed": record.baseline_disturbed,
        "outputs_verified": record.outputs_verified,
        "bound": row[f"{prefix}_bound_outcome"],
        "bound_ms": rounded(row[f"{prefix}_bound_ms"], DIGITS),
        "floor_ms": rounded(row[f"{prefix}_floor_ms"], DIGITS),
        "floor_bound": row[f"{prefix}_floor_bound"],
        "sol_score": rounded(row[f"{prefix}_sol_score"], DIGITS),
    }


def _memory(row: Row) -> dict[str, Any]:
    return {
        "why_null": row["why_null_memory"],
        "figures": [
            {
                "name": name,
                "baseline_bytes": row[f"memory_baseline_{name}_bytes"],
                "candidate_bytes": row[f"memory_candidate_{name}_bytes"],
                "ratio": rounded(row[f"memory_ratio_{name}"], DIGITS),
            }
            for name in MEMORY_FIELDS
        ],
    }


def _provenance(found: CandidateRecords, row: Row) -> list[list[Any]]:
    made = found.generation
    settings = [(f"setting {name}", str(value)) for name, value in made.settings.items()] if made else []
    return pairs(
        [
            ("origin", row["origin"]),
            ("from", made.source if made else None),
            ("model", made.model if made else None),
            *settings,
            ("prompt", row["prompt_variant"]),
            ("asked for", row["prompt_targets"]),
            ("code found by", made.extraction if made else None),
            ("remark", made.detail if made else None),
            ("edited since", "yes" if row["edited"] else None),
            ("must get", row["expected_verdict"]),
            ("candidate sha256", row["candidate_sha256"]),
            ("problem sha256", row["problem_sha256"]),
            ("device", row["device_name"]),
            ("device uuid", row["device_uuid"]),
            ("driver", row["driver"]),
            ("torch", row["torch"]),
            ("CUDA", row["cuda"]),
            ("sandbox", row["sandbox"]),
            ("gate mode", row["gate_mode"]),
            ("kbverified", row["package_version"]),
            ("records", f"results/*/{found.key.tail}.json"),
        ]
    )
