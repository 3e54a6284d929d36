"""Columns of the kernel table that come from the oracle: scaled errors, and the class of arithmetic. Torch-free."""

from __future__ import annotations

from typing import Any

from kbverified import numerics, protocol
from kbverified.records.stages import GateRecord
from kbverified.records.trials import OracleErrors
from kbverified.scaled_limit import within


def oracle_columns(gate: GateRecord | None, stopped: str) -> tuple[dict[str, Any], dict[str, str | None]]:
    """Columns of the groups ``scaled_error`` and ``numerics``, and why one of them is null.

    ``stopped``: why there is no gate to read, for where there is none.
    """
    if gate is None or gate.status == "skipped":
        return {}, {"scaled_error": stopped, "numerics": stopped}
    found = {trial.distribution: trial.oracle for trial in gate.trials if trial.oracle is not None}
    columns: dict[str, Any] = {}
    for name in protocol.DISTRIBUTIONS:
        columns[f"scaled_error_{name}"] = _worst(gate, name, "scaled_error")
        columns[f"reference_scaled_error_{name}"] = _worst(gate, name, "reference_scaled_error")
    said = [within(errors, gate.provenance.dtype) for errors in _all(gate)]
    columns["within_scaled_limit"] = None if not said or None in said else all(said)
    without = [f"{name}: {errors.why_not_fp64}" for name, errors in found.items() if errors.why_not_fp64]
    columns["without_oracle"] = "; ".join(without) or None
    reasons: dict[str, str | None] = {"scaled_error": _why_null(found)}
    if gate.provenance.dtype != "fp32":
        return columns, {**reasons, "numerics": f"numerics: not told for {gate.provenance.dtype}"}
    judged = numerics.classify(gate.numerics)
    figures = gate.numerics
    columns |= {"numerics_class": judged.name, "numerics_remark": judged.why}
    for name in ("candidate", "fp32", "ten_bits", "seven_bits"):
        columns[f"numerics_{name}_rms_error"] = getattr(figures, f"{name}_rms_error") if figures is not None else None
    return columns, {**reasons, "numerics": judged.why or "a figure is not finite"}


def _all(gate: GateRecord) -> list[OracleErrors]:
    return [trial.oracle for trial in gate.trials if trial.oracle is not None]


def _worst(gate: GateRecord, distribution: str, field: str) -> float | None:
    """Over the distribution's trials; None where one of them has no figure."""
    trials = [trial for trial in gate.trials if trial.distribution == distribution]
    values: list[float | None] = [getattr(t.oracle, field) if t.oracle else None for t in trials]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _why_null(found: dict[str, OracleErrors]) -> str:
    missing = [name for name in protocol.DISTRIBUTIONS if name not in found]
    if len(missing) == len(protocol.DISTRIBUTIONS):
        return "no trial was held against an oracle: nothing was compared, or an older record"
    if missing:
        return f"not held against an oracle: {', '.join(missing)}"
    return "no floating-point output, or no finite figure"
