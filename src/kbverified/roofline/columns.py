"""The kernel table's columns about the roofline, and which speedups an implausible claim takes away.

Everything is computed when records are aggregated, from the audit, the ceilings and the times: no stage reruns for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kbverified import protocol
from kbverified.kernel_table import column_name
from kbverified.keys import BASELINE_STAGES
from kbverified.records.base import DeviceInfo
from kbverified.records.ceilings import Ceilings
from kbverified.records.files import read
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import TimeRecord
from kbverified.roofline import floor
from kbverified.roofline.floor import Rates

Part = tuple[dict[str, Any], dict[str, str | None]]

ARM_STAGE = {"naive": "time-fp32", "published": "time-fp32", "matched": "time-tf32", **BASELINE_STAGES}
"""The record that an arm's claim (the candidate's time) is from; matched is from ``matched_from`` where that is set."""


def ceilings_path(root: Path, kind: str) -> Path:
    return root / "results" / "ceilings" / f"{kind}.json"


def ceilings_for(root: Path, device: DeviceInfo) -> Ceilings | str:
    """The ceilings of a device's kind, or why they do not hold for it. Raises RecordError for a broken file."""
    path = ceilings_path(root, device.kind)
    try:
        found = read(path, Ceilings)
    except FileNotFoundError:
        return f"no {path.relative_to(root)}: make it with snakemake, or kbverified ceilings, on the device"
    measured = found.provenance.device
    if measured is None or measured.environment() != device.environment():
        theirs = _words(measured.environment() if measured is not None else None)
        return f"the ceilings are those of another device or software: {theirs}, not {_words(device.environment())}"
    if found.provenance.schema_version != protocol.SCHEMA_VERSION:
        return f"the ceilings are of schema version {found.provenance.schema_version}"
    return found


def _words(environment: Iterable[str | None] | None) -> str:
    return " ".join(str(part) for part in environment or ("none",) if part is not None)


def roofline_columns(
    root: Path,
    problem: ProblemRecord | None,
    timings: Mapping[str, TimeRecord | None],
    row: Mapping[str, Any],
    why_null: Mapping[str, str | None],
) -> Part:
    """Ceilings, floors, fractions and scores of a candidate's timing records (by stage), and reasons for nulls.

    ``row`` has the timing columns, ``why_null`` the reasons of their groups. Raises RecordError for broken ceilings.
    """
    columns: dict[str, Any] = {}
    reasons: dict[str, str | None] = {"ceilings": "no time that may be used"}
    for stage, record in timings.items():
        prefix = column_name(stage)
        baseline_ms, candidate_ms = (row.get(f"{prefix}_{side}_ms") for side in ("baseline", "candidate"))
        device = record.provenance.device if record is not None else None
        if record is None or device is None or baseline_ms is None or candidate_ms is None:
            reasons[f"roofline_{prefix}"] = why_null.get(prefix) or f"{stage}: no time"
            continue
        ceilings = ceilings_for(root, device)
        if isinstance(ceilings, str):
            reasons[f"roofline_{prefix}"] = reasons["ceilings"] = ceilings
            continue
        rates = floor.rates(ceilings)
        columns |= _rate_columns(rates)
        reasons["ceilings"] = "the size of the device's cache is not known" if rates.cache_bytes is None else None
        found = floor.floor_of(problem, rates, record.provenance.mode or "ieee", record.provenance.dtype)
        if isinstance(found, str):
            reasons[f"roofline_{prefix}"] = found
            continue
        columns |= _time_columns(prefix, found, baseline_ms, candidate_ms)
        if columns[f"{prefix}_sol_score"] is None:
            reasons[f"roofline_{prefix}"] = f"{stage}: the baseline is at the floor or below, no score"
    for mark in ("implausible", "below_floor"):
        marked = [stage for stage in timings if columns.get(f"{column_name(stage)}_{mark}")]
        columns[f"{mark}_in"] = ", ".join(marked) or None
    return columns, reasons


def _rate_columns(rates: Rates) -> dict[str, Any]:
    return {
        "ceiling_bytes_per_s": rates.bandwidth,
        "ceiling_ieee_flops_per_s": rates.ieee,
        "ceiling_tf32_flops_per_s": rates.tf32,
        "ceiling_bf16_flops_per_s": rates.bf16,
        "ceiling_cache_bytes": rates.cache_bytes,
    }


def _time_columns(prefix: str, found: floor.Floor, baseline_ms: float, candidate_ms: float) -> dict[str, Any]:
    margin = protocol.ROOFLINE_MARGIN
    return {
        f"{prefix}_floor_ms": found.floor_ms,
        f"{prefix}_floor_bound": found.bound,
        f"{prefix}_hard_floor_ms": found.hard_ms,
        f"{prefix}_baseline_roofline": found.floor_ms / baseline_ms,
        f"{prefix}_candidate_roofline": found.floor_ms / candidate_ms,
        f"{prefix}_sol_score": floor.sol_score(baseline_ms, candidate_ms, found.floor_ms),
        f"{prefix}_implausible": floor.below(candidate_ms, found.hard_ms, margin),
        f"{prefix}_below_floor": floor.below(candidate_ms, found.floor_ms, margin),
    }


def claim_stage(arm: str, matched_from: str | None) -> str:
    """The stage whose record holds the claim that an arm's speedup is made of."""
    return matched_from or ARM_STAGE[arm] if arm == "matched" else ARM_STAGE[arm]


def withhold(columns: dict[str, Any], reasons: dict[str, str | None], kind: str | None) -> None:
    """Take away, in place, the speedups that rest on an implausible claim: what cannot be is never averaged.

    Not on a CPU, which nobody has for himself: ceilings that were measured beside other work are too low.
    """
    for arm in ARM_STAGE if kind == "cuda" else ():
        stage = claim_stage(arm, columns.get("matched_from"))
        prefix = column_name(stage)
        if not columns.get(f"{prefix}_implausible") or columns.get(f"speedup_{arm}") is None:
            continue
        claim, hard = columns[f"{prefix}_candidate_ms"], columns[f"{prefix}_hard_floor_ms"]
        columns |= {f"speedup_{arm}{end}": None for end in ("", "_low", "_high")}
        reasons[f"speedup_{arm}"] = (
            f"implausible: {stage} claims {claim:.4g} ms, and moving the inputs and outputs alone takes {hard:.4g} ms"
        )
