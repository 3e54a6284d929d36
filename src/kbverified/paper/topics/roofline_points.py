"""Where winners and implausible claims lie against the roofline, one point per kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kbverified.kernel_table import column_name
from kbverified.leaderboard.scopes import Row, Scope
from kbverified.metrics import Arm
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import best
from kbverified.roofline.columns import claim_stage


@dataclass(frozen=True)
class Point:
    """A winner, or a verified sample whose claim is implausible."""

    generator: str
    problem: str
    sample: int
    baseline: float
    candidate: float
    """Floor / time of each side."""
    hard_share: float
    """Hard floor / floor, at most 1: times this, a fraction is one of the hard floor. 0 where nothing has to move."""
    below_floor: bool
    implausible: bool


def points(inputs: PaperInputs, scope: Scope, generator: str) -> list[Point]:
    """A generator's winners of a scope in the headline arm and test, and what was implausible there."""
    c = inputs.leaderboard.conditions
    arm, test = c.headline_arm, c.headline_test
    wanted = set(scope.problems)
    won = [row for row in best(inputs, generator, scope, arm, test).winners if row is not None]
    odd = [
        row
        for row in inputs.rows[generator]
        if (row["suite"], row[f"verdict_{test}"]) == (scope.suite, "pass")
        and row["problem"] in wanted
        and claimed(row, arm, "implausible")
    ]
    rows = {(row["problem"], row["sample"]): row for row in [*won, *odd]}
    return [p for row in rows.values() if (p := _point(row, arm)) is not None]


def _point(row: Row, arm: Arm) -> Point | None:
    floor_ms, baseline, candidate = (
        claimed(row, arm, name) for name in ("floor_ms", "baseline_roofline", "candidate_roofline")
    )
    if floor_ms is None or baseline is None or candidate is None:
        return None
    return Point(
        generator=row["generator"],
        problem=row["problem"],
        sample=row["sample"],
        baseline=baseline,
        candidate=candidate,
        hard_share=claimed(row, arm, "hard_floor_ms") / floor_ms,
        below_floor=claimed(row, arm, "below_floor") is True,
        implausible=claimed(row, arm, "implausible") is True,
    )


def claimed(row: Row, arm: Arm, name: str) -> Any:
    """A column of the roofline in the record that the arm's claim is from."""
    return row[f"{column_name(claim_stage(arm, row['matched_from']))}_{name}"]
