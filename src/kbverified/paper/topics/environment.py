"""What the numbers were measured on and under: devices, software, settings, and the protocol of every stage."""

from __future__ import annotations

from collections.abc import Iterable

from kbverified import protocol
from kbverified.leaderboard.conditions import DIGEST_COLUMNS
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.table import Cell, Column, Table

TOPIC = "environment"
DIGEST_DIGITS = 16
"""Of 64: enough to tell protocols apart."""


def tables(inputs: PaperInputs) -> list[Table]:
    return [_environment(inputs), _protocol(inputs)]


def _environment(inputs: PaperInputs) -> Table:
    columns = (Column("subject", "subject"), Column("what", "what"), Column("value", "value"))
    rows: list[tuple[Cell, ...]] = [*_measured_on(inputs), *_settings(inputs)]
    note = "Several values of one thing: the run has them all. " + _admissible(inputs)
    note += " A dash: no record says, for no stage used a device, or a CPU has no such thing."
    return Table("environment", "Environment and settings", note, columns, tuple(rows))


def _admissible(inputs: PaperInputs) -> str:
    c = inputs.leaderboard.conditions
    reasons = "; ".join(c.notes)
    if c.findings:
        return f"One kind of GPU and one environment throughout.{f' Notes: {reasons}.' if reasons else ''}"
    return f"Not for findings: no GPU, or mixed environments.{f' {reasons}.' if reasons else ''}"


def _measured_on(inputs: PaperInputs) -> list[tuple[Cell, ...]]:
    """From the rows of the kernel tables."""
    rows = [row for of_one in inputs.rows.values() for row in of_one]

    def values(column: str) -> str | None:
        return ", ".join(sorted({row[column] for row in rows if row[column] is not None})) or None

    uuids = {row["device_uuid"] for row in rows if row["device_uuid"]}
    device = [
        ("model", values("device_name")),
        ("kind", values("device_kind")),
        ("number of devices", str(len(uuids)) if uuids else None),
        ("driver", values("driver")),
        ("CUDA", values("cuda")),
        ("ceilings", "; ".join(inputs.leaderboard.conditions.ceilings) or None),
    ]
    software = [
        ("torch", values("torch")),
        ("kbverified", values("package_version")),
        ("sandbox", values("sandbox")),
        ("gate mode", values("gate_mode")),
    ]
    return [
        *(("device", what, value) for what, value in device),
        *(("software", what, value) for what, value in software),
    ]


def _settings(inputs: PaperInputs) -> list[tuple[Cell, ...]]:
    c = inputs.leaderboard.conditions
    kinds = sorted({row["device_kind"] for rows in inputs.rows.values() for row in rows if row["device_kind"]})
    between = [f"{100 * sd:g} % ({kind})" for kind in kinds if (sd := protocol.BETWEEN_PROCESS_SD.get(kind))]
    found = {
        "suites": ", ".join(c.suites) or None,
        "problems": f"{c.n_problems_active} active of {c.n_problems_selected} selected",
        "generators": str(len(inputs.generators)),
        "candidates": str(len(inputs.kernels)),
        **{f"tau, {dtype}": f"{tau:g}" for dtype, tau in sorted(c.tau.items())},
        "tau, sensitivity": ", ".join(f"{tau:g}" for tau in inputs.taus),
        "confidence": f"{100 * c.confidence:g} %",
        "resamples": str(c.resamples),
        "headline": f"{c.headline_arm} arm, {c.headline_test} test",
        "arms": ", ".join(c.arms),
        "variance between processes": ", ".join(between) or "none in the intervals: no A/A study of this device yet",
        "mixed environments": "allowed" if c.allow_mixed else "refused",
    }
    return [("settings", what, value) for what, value in found.items()]


def _protocol(inputs: PaperInputs) -> Table:
    """One row per stage that has a record or was asked for."""
    c = inputs.leaderboard.conditions
    columns = (
        Column("stage", "stage"),
        Column("n_records", "records", kind="count"),
        Column("mode", "precision mode"),
        Column("digest", "protocol digest"),
    )
    rows: list[tuple[Cell, ...]] = []
    for stage, digests in c.protocol_digests.items():
        if stage == "audit-problem":
            n, found = len(inputs.problems), _joined(p.provenance.protocol_digest for p in inputs.problems.values())
            mode = _joined(p.provenance.mode for p in inputs.problems.values())
        else:
            n = sum(row[DIGEST_COLUMNS[stage]] is not None for of_one in inputs.rows.values() for row in of_one)
            found, mode = _joined(digests), _joined(c.modes.get(stage, ()), cut=None)
        rows.append((stage, n, mode, found))
    note = (
        f"digest: the first {DIGEST_DIGITS} of 64 digits of sha256 over the constants that shape the stage's records "
        "(protocol.py). records: of candidates of all generators, skipped ones too; of audits, one a problem. A dash: "
        "the stage computes nothing under a precision mode of its own, or has no record."
    )
    return Table("protocol", "Protocol and records by stage", note, columns, tuple(rows))


def _joined(values: Iterable[str | None], cut: int | None = DIGEST_DIGITS) -> str | None:
    return ", ".join(sorted({value[:cut] for value in values if value is not None})) or None
