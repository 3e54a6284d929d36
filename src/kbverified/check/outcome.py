"""What a check comes to: one word, an exit code and a sentence, from the candidate's row and its records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_FAILED
from kbverified.keys import EVERY_STAGE
from kbverified.records.stages import StageRecord
from kbverified.verdicts import Test

NO_FAILURE = ("pass", "unstable")
"""Verdicts of timing and memory that say nothing against the candidate."""


@dataclass(frozen=True)
class Outcome:
    """``verdict`` is None where the test cannot be decided."""

    word: Literal["pass", "fail", "no verdict"]
    exit_code: int
    verdict: str | None
    reason: str | None
    """One sentence of what failed, or why there is no verdict; None for a pass."""


def of(row: Mapping[str, Any], stages: Mapping[str, StageRecord | None], test: Test) -> Outcome:
    """The outcome of a test, from a row of the kernel table and the records (by stage) that it was made of.

    Where the gate was not asked for, compile decides. A candidate that passes the test and then fails while it is timed
    or measured does not pass a check; the leaderboard counts it as correct, and without that number.
    """
    compiled = stages.get("compile")
    if stages.get("hidden-gate") is None and compiled is not None and compiled.verdict == "pass":
        return Outcome("pass", 0, "pass", None)
    verdict = row[f"verdict_{test}"]
    if verdict is None:
        return Outcome("no verdict", EXIT_BAD_INPUT, None, row[f"why_null_verdict_{test}"])
    if verdict != "pass":
        return Outcome("fail", EXIT_FAILED, verdict, _reason(row, test))
    for stage, record in later_failures(stages).items():
        said = f"passes the {test} test, but {stage}: {record.verdict}"
        return Outcome("fail", EXIT_FAILED, record.verdict, f"{said}: {record.detail}" if record.detail else said)
    return Outcome("pass", 0, "pass", None)


def later_failures(stages: Mapping[str, StageRecord | None]) -> dict[str, StageRecord]:
    """Records of timing and memory whose verdict is held against the candidate, in the order of stages."""
    later = [stage for stage in EVERY_STAGE if stage not in ("compile", "hidden-gate")]
    found = {stage: record for stage in later if (record := stages.get(stage)) is not None}
    return {stage: record for stage, record in found.items() if record.verdict not in (None, *NO_FAILURE)}


def _reason(row: Mapping[str, Any], test: Test) -> str | None:
    failed = row[f"failed_{test}"]
    own = row["hardened_detail"] if test == "hardened" and row["verdict_hidden"] == "pass" else None
    detail = own or row["verdict_detail"]
    if test == "standard" and row["verdict_standard"] != row["verdict_hidden"]:
        detail = None  # what the row keeps is the hidden verdict's
    if detail is None:
        return f"failed: {failed}" if failed else None
    if not failed or failed in detail:
        return detail
    many_lines = "\n" in detail.strip()
    return f"{detail.rstrip()}\n(failed: {failed})" if many_lines else f"{detail} (failed: {failed})"
