"""The table that the page opens with: one row per candidate, column by column, small enough to be read at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbverified import protocol
from kbverified.kernel_table import column_name
from kbverified.keys import ProblemKey
from kbverified.leaderboard.scopes import why_inactive
from kbverified.metrics import Arm
from kbverified.page.packing import numbers, words
from kbverified.page.rule import Step
from kbverified.records.problem import ProblemRecord
from kbverified.roofline.columns import claim_stage
from kbverified.verdicts import TESTS, Test

Row = Mapping[str, Any]
DIGITS = 5
ENDS = ("", "_low", "_high")
"""Of a number's columns: its value, and its interval's ends."""
SHOWN_MEMORY_FIELDS = ("allocator_peak", "device_peak")
"""The published figure, and the one that a CPU has."""


def columns(
    rows: Sequence[Row],
    steps: Sequence[dict[Test, Step]],
    problems: Sequence[ProblemKey],
    arms: Sequence[Arm],
) -> dict[str, Any]:
    """Columns by name, each as packing.words or packing.numbers; ``problem`` counts into ``problems``.

    The critical tolerances that decide (``needs_...``) keep every bit: a rounded one could cross tau.
    """
    place = {key: i for i, key in enumerate(problems)}
    field = memory_field(rows)
    found: dict[str, Any] = {
        "generator": words(row["generator"] for row in rows),
        "problem": numbers(place[ProblemKey(row["suite"], row["problem"])] for row in rows),
        "sample": numbers(row["sample"] for row in rows),
        "dtype": words(row["dtype"] for row in rows),
        "numerics": words(row["numerics_class"] for row in rows),
        "kind": words(row["static_kind"] for row in rows),
        "tolerance": numbers((_worst_tolerance(row) for row in rows), DIGITS),
        "memory": numbers((row[f"memory_ratio_{field}"] for row in rows), DIGITS),
        "implausible": words(row["implausible_in"] for row in rows),
        "below_floor": words(row["below_floor_in"] for row in rows),
    }
    for test in TESTS:
        found |= {
            f"needs_{test}": numbers(step[test].needs for step in steps),
            f"below_{test}": words(step[test].below for step in steps),
            f"above_{test}": words(step[test].above for step in steps),
        }
    for arm in arms:
        found |= {f"speedup_{arm}{end}": numbers((r[f"speedup_{arm}{end}"] for r in rows), DIGITS) for end in ENDS}
        found[f"time_{arm}"] = numbers((_claim_ms(row, arm) for row in rows), DIGITS)
    return found


def memory_field(rows: Sequence[Row]) -> str:
    """The memory figure that the table shows: the published one, unless no row has it."""
    published, other = SHOWN_MEMORY_FIELDS
    has = any(row[f"memory_ratio_{published}"] is not None for row in rows)
    return published if has or all(row[f"memory_ratio_{other}"] is None for row in rows) else other


def _worst_tolerance(row: Row) -> float | None:
    values = [row[f"critical_tolerance_{name}"] for name in protocol.DISTRIBUTIONS]
    return max((value for value in values if value is not None), default=None)


def _claim_ms(row: Row, arm: Arm) -> float | None:
    """The candidate's time in the record that the arm's speedup is from."""
    value: float | None = row[f"{column_name(claim_stage(arm, row['matched_from']))}_candidate_ms"]
    return value


def problem_columns(
    keys: Sequence[ProblemKey], audits: Mapping[ProblemKey, ProblemRecord | None]
) -> list[dict[str, Any]]:
    """Of each problem what the table shows and filters by, and whether it counts in any metric."""
    return [
        {
            "suite": key.suite,
            "problem": key.problem,
            "level": key.level,
            "number": key.number,
            "name": audit.name if audit is not None else key.problem,
            "why_inactive": why_inactive(audit),
            "replay": _replay(audit),
        }
        for key, audit in ((key, audits.get(key)) for key in keys)
    ]


def _replay(audit: ProblemRecord | None) -> float | None:
    """The tau from which the output for other inputs passes everywhere; None where that is not known."""
    found = [d.replay_tolerance for d in audit.distributions if d.applicable] if audit is not None else []
    known = [tolerance for tolerance in found if tolerance is not None]
    return max(known) if known and len(known) == len(found) else None
