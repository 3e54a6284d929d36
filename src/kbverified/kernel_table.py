"""The table of ``results/kernels/{generator}.parquet``: its columns, their groups, and reading and writing it.

One row per candidate. The columns and their types are fixed, also for an empty table, and the bytes depend on the
rows alone. Every group of columns that can be missing has a column ``why_null_{group}``: it holds a reason exactly
where one of the group's columns is null. docs/records.md describes every column.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kbverified import protocol
from kbverified.keys import BASELINE_STAGES, STAGES, TIME_STAGES, candidate_tail
from kbverified.metrics import EVERY_ARM
from kbverified.records.files import RecordError, write_bytes

TEXT, NUMBER, WHOLE, TRUTH = pa.string(), pa.float64(), pa.int64(), pa.bool_()

MEMORY_FIELDS = ("allocator_peak", "allocator_above", "device_peak", "device_above")
DIGEST_STAGES = ("audit-problem", *STAGES)
EVERY_DIGEST_STAGE = (*DIGEST_STAGES, *BASELINE_STAGES.values())

Columns = dict[str, pa.DataType]


def column_name(stage: str) -> str:
    """A stage's name as the beginning of a column name: ``time-fp32`` -> ``time_fp32``."""
    return stage.replace("-", "_")


def _interval(name: str) -> Columns:
    return {name: NUMBER, f"{name}_low": NUMBER, f"{name}_high": NUMBER}


def _timing(stage: str) -> Columns:
    t = column_name(stage)
    return {
        f"{t}_mode": TEXT,
        f"{t}_baseline_name": TEXT,
        **_interval(f"{t}_baseline_ms"),
        **_interval(f"{t}_candidate_ms"),
        f"{t}_rounds": WHOLE,
        f"{t}_rounds_dropped": WHOLE,
        f"{t}_baseline_alone_ms": NUMBER,
        f"{t}_baseline_disturbed": TRUTH,
        f"{t}_interleaved": TRUTH,
        f"{t}_outputs_verified": WHOLE,
        f"{t}_bound_outcome": TEXT,
        f"{t}_bound_ms": NUMBER,
        f"{t}_undetected_gain_at_most": NUMBER,
        f"{t}_critical_tolerance": NUMBER,
    }


def _roofline(stage: str) -> Columns:
    t = column_name(stage)
    return {
        f"{t}_floor_ms": NUMBER,
        f"{t}_floor_bound": TEXT,
        f"{t}_hard_floor_ms": NUMBER,
        f"{t}_baseline_roofline": NUMBER,
        f"{t}_candidate_roofline": NUMBER,
        f"{t}_sol_score": NUMBER,
        f"{t}_implausible": TRUTH,
        f"{t}_below_floor": TRUTH,
    }


CEILINGS: Columns = {
    "ceiling_bytes_per_s": NUMBER,
    "ceiling_ieee_flops_per_s": NUMBER,
    "ceiling_tf32_flops_per_s": NUMBER,
    "ceiling_bf16_flops_per_s": NUMBER,
    "ceiling_cache_bytes": WHOLE,
}


def _baseline(stage: str) -> Columns:
    """An optional baseline's stage: its protocol is part of its own group, for most runs have no such record."""
    t = column_name(stage)
    compiler: Columns = {
        f"{t}_compile_s": NUMBER,
        f"{t}_graphs": WHOLE,
        f"{t}_graph_breaks": WHOLE,
        f"{t}_answer_tolerance": NUMBER,
    }
    only = compiler if stage == BASELINE_STAGES["compile"] else {}
    return {**_timing(stage), **only, f"protocol_digest_{t}": TEXT}


def _memory() -> Columns:
    columns: Columns = {f"memory_ratio_{field}": NUMBER for field in MEMORY_FIELDS}
    for side in ("baseline", "candidate"):
        columns |= {f"memory_{side}_{field}_bytes": WHOLE for field in MEMORY_FIELDS}
    return columns


KEY: Columns = {
    "generator": TEXT,
    "suite": TEXT,
    "problem": TEXT,
    "sample": WHOLE,
    "level": WHOLE,
    "number": WHOLE,
}

GROUPS: dict[str, Columns] = {
    "candidate": {"candidate_sha256": TEXT, "dtype": TEXT, "tau": NUMBER},
    "generation": {"origin": TEXT, "source": TEXT, "edited": TRUTH},
    "problem": {
        "problem_name": TEXT,
        "problem_sha256": TEXT,
        "usable": TRUTH,
        "degenerate": TRUTH,
        "non_discriminating": TRUTH,
        "applicable_distributions": TEXT,
    },
    "undecidable": {"undecidable": TRUTH},
    "verdict_standard": {"verdict_standard": TEXT},
    "verdict_hidden": {"verdict_hidden": TEXT},
    "verdict_hardened": {"verdict_hardened": TEXT},
    "critical_tolerance": {f"critical_tolerance_{name}": NUMBER for name in protocol.DISTRIBUTIONS},
    "weights": {"weights_match": TRUTH},
    "scaled_error": {
        **{f"scaled_error_{name}": NUMBER for name in protocol.DISTRIBUTIONS},
        **{f"reference_scaled_error_{name}": NUMBER for name in protocol.DISTRIBUTIONS},
        "within_scaled_limit": TRUTH,
    },
    "numerics": {
        "numerics_class": TEXT,
        **{f"numerics_{name}_rms_error": NUMBER for name in ("candidate", "fp32", "ten_bits", "seven_bits")},
    },
    **{column_name(stage): _timing(stage) for stage in TIME_STAGES if stage in STAGES},
    **{column_name(stage): _baseline(stage) for stage in BASELINE_STAGES.values()},
    **{f"speedup_{arm}": _interval(f"speedup_{arm}") for arm in EVERY_ARM},
    "ceilings": CEILINGS,
    **{f"roofline_{column_name(stage)}": _roofline(stage) for stage in TIME_STAGES},
    "memory": _memory(),
    "static": {"static_kind": TEXT, "static_language": TEXT},
    "static_operators": {"static_delegated_share": NUMBER},
    "flags": {"flags_changed": TRUTH, "precision_flags_changed": TRUTH},
    "environment": {
        "device_kind": TEXT,
        "device_name": TEXT,
        "device_uuid": TEXT,
        "driver": TEXT,
        "torch": TEXT,
        "cuda": TEXT,
        "sandbox": TEXT,
        "gate_mode": TEXT,
        "package_version": TEXT,
    },
    "protocol": {f"protocol_digest_{column_name(stage)}": TEXT for stage in DIGEST_STAGES},
}
"""Columns that may be null only with a reason in ``why_null_{group}``."""

REMARKS: Columns = {
    "expected_verdict": TEXT,
    "prompt_variant": TEXT,
    "prompt_targets": TEXT,
    "verdict_detail": TEXT,
    "failed_standard": TEXT,
    "failed_hidden": TEXT,
    "failed_hardened": TEXT,
    "hardened_detail": TEXT,
    "without_oracle": TEXT,
    "numerics_remark": TEXT,
    **{f"{column_name(stage)}_verdict": TEXT for stage in TIME_STAGES},
    "memory_verdict": TEXT,
    "speedup_flags_changed": NUMBER,
    "matched_from": TEXT,
    "arms_note": TEXT,
    "flags_changed_in": TEXT,
    "implausible_in": TEXT,
    "below_floor_in": TEXT,
    "static_labels": TEXT,
    "static_delegated": TEXT,
    "static_flags": TEXT,
}
"""Columns in which null means: nothing to remark."""

COLUMNS: Columns = {
    **KEY,
    **{name: kind for group in GROUPS.values() for name, kind in group.items()},
    **REMARKS,
    **{f"why_null_{group}": TEXT for group in GROUPS},
}

SCHEMA = pa.schema(list(COLUMNS.items()), metadata={"kbverified.schema_version": str(protocol.SCHEMA_VERSION)})


def complete(row: Mapping[str, Any], reasons: Mapping[str, str | None]) -> dict[str, Any]:
    """A full row in column order; a group with a null gets its reason, or the names of what is null.

    Raises ValueError for a column that the table does not have.
    """
    if unknown := sorted(row.keys() - COLUMNS.keys()):
        raise ValueError(f"no such column: {', '.join(unknown)}")
    full = {name: row.get(name) for name in COLUMNS}
    for group, columns in GROUPS.items():
        null = [name for name in columns if full[name] is None]
        why = reasons.get(group) or f"not in the record: {', '.join(null)}"
        full[f"why_null_{group}"] = why if null else None
    return full


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows (from ``complete``) as a DataFrame with the fixed columns and types; null is pandas' NA."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A DataFrame of this shape as dictionaries, null as None. Raises ValueError where columns do not fit."""
    return _arrow(table, "table").to_pylist()


def tail_of(row: Mapping[str, Any]) -> str:
    """generator/suite/problem/sample of a row, as CandidateKey.tail."""
    return candidate_tail(row["generator"], row["suite"], row["problem"], row["sample"])


def read_rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of several tables, in order. Raises RecordError, FileNotFoundError as ``read_parquet``."""
    return [row for path in paths for row in rows(read_parquet(path))]


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write the table atomically; the same rows give the same bytes.

    Raises ValueError where columns are missing, foreign or of another type, OSError.
    """
    content = _arrow(table, str(path)).replace_schema_metadata(SCHEMA.metadata)
    file = io.BytesIO()
    pq.write_table(content, file, compression="zstd", write_page_checksum=True)
    write_bytes(path, file.getvalue())


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a table written by write_parquet. Raises RecordError where it is none, FileNotFoundError."""
    try:
        table = pq.read_table(path, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:  # the second where a page is damaged; it names no file
        why = " ".join(str(error).split())
        raise RecordError(f"{path}: not a readable Parquet file: {why}. Delete it and rerun.") from None
    if not table.schema.equals(SCHEMA):
        odd = [name for name in {*table.schema.names, *COLUMNS} if not _same_column(table.schema, name)]
        raise RecordError(f"{path}: columns of another version: {', '.join(sorted(odd))}. Delete it and rerun.")
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _same_column(schema: pa.Schema, name: str) -> bool:
    here = name in schema.names and name in COLUMNS
    return here and schema.field(name).type == COLUMNS[name]


def _arrow(table: pd.DataFrame, what: str) -> pa.Table:
    if list(table.columns) != list(COLUMNS):
        odd = sorted(set(table.columns) ^ set(COLUMNS)) or ["their order"]
        raise ValueError(f"{what}: the columns are not those of the kernel table: {', '.join(map(str, odd))}")
    try:
        return pa.Table.from_pandas(table, schema=SCHEMA, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{what}: {error}") from None
