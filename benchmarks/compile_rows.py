"""What the rows of ``benchmarks/compile.py`` say: spreads of each side, ratios over pairs, a table. Torch-free."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.summaries import Ratio, Spread, number, ratio, spread, table

SIDES = ("ours", "plain")
BUILT = "built"
"""Outcome of a candidate all of whose extensions were built."""
ONE_OFF_CPU_S = 5.0
"""A command that spends more than this beside building has made something that later ones share, as a header."""
TARGET_CPU_S = 25.0
"""What issue 3 asks of the median candidate on a GPU machine."""


# --- rows ---
def read_answer(out: Path, side: str) -> dict[str, Any]:
    """What a task wrote, in words that both sides share: outcome, builds, build CPU seconds. None: it wrote nothing."""
    try:
        answer = json.loads(out.read_text())
    except (OSError, ValueError):
        return {"outcome": None, "builds": None, "build_cpu_s": None}
    builds = answer.get("builds") or []
    oks = [bool(build.get("ok")) for build in builds]
    outcome = "no build" if not builds else BUILT if all(oks) else "failed" if not any(oks) else "some failed"
    if side == "ours":
        return {"outcome": outcome, "builds": len(builds), "build_cpu_s": answer.get("cpu_seconds")}
    return {"outcome": outcome, "builds": len(builds), "build_cpu_s": round(sum(b["cpu_s"] for b in builds), 3)}


def rows_of_place(path: Path, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of earlier calls on the same machine and code; a line that a kill cut short is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return [row for row in rows if row["where"] == json.dumps(facts, sort_keys=True)]


# --- summing up ---
@dataclass(frozen=True)
class Side:
    """One side: spreads over the candidates whose every extension it built."""

    cpu_s: Spread | None
    build_cpu_s: Spread | None
    """Ours: from before the worker starts to its end, imports included. Plain: the call of load_inline alone."""
    wall_s: Spread | None
    outcomes: dict[str, int]
    """Of all candidates: those that do not build cost time as well."""
    mean_cpu_s: float | None
    """Of all candidates, whatever their outcome: what an hour's worth of them follows from."""
    faults: int
    """Commands that wrote nothing: counted nowhere else."""
    one_off_cpu_s: tuple[float, ...] = ()
    """CPU seconds beside building, of each command for which they exceed ONE_OFF_CPU_S. In cpu_s they are counted."""


@dataclass(frozen=True)
class Summary:
    sides: dict[str, Side]
    cpu_ratio: Ratio | None
    """plain / ours, CPU seconds, over candidates that both sides built."""
    later_cpu_ratio: Ratio | None
    """The same without what ours makes once: what it tends to with more candidates than these."""
    wall_ratio: Ratio | None
    unlike: list[str]
    """Candidates whose outcome or number of builds differs between the sides: left out of the ratios."""


def summarize(rows: Sequence[dict[str, Any]]) -> Summary:
    """Of rows of one machine and code; the last row of a candidate and side counts."""
    latest = {(row["side"], row["candidate"]): row for row in rows}
    sides = {}
    for side in SIDES:
        mine = [row for (which, _), row in latest.items() if which == side]
        good = [row for row in mine if row["outcome"] is not None]
        if mine:
            outcomes: dict[str, int] = {}
            for row in good:
                outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
            built = [row for row in good if row["outcome"] == BUILT]
            sides[side] = Side(
                spread(row["cpu_s"] for row in built),
                spread(row["build_cpu_s"] for row in built),
                spread(row["wall_s"] for row in built),
                outcomes,
                sum(row["cpu_s"] for row in good) / len(good) if good else None,
                len(mine) - len(good),
                tuple(sorted(one_off for row in good if (one_off := _one_off_cpu_s(row)))),
            )
    pairs, unlike = [], []
    for (side, candidate), ours in latest.items():
        plain = latest.get(("plain", candidate))
        if side != "ours" or plain is None or ours["outcome"] is None or plain["outcome"] is None:
            continue
        if (ours["outcome"], ours["builds"]) == (plain["outcome"], plain["builds"]):
            pairs += [(plain, ours)] if ours["outcome"] == BUILT else []
        else:
            unlike.append(
                f"{candidate}: ours {ours['outcome']} ({ours['builds']}), plain {plain['outcome']} ({plain['builds']})"
            )
    plain_s = [plain["cpu_s"] for plain, _ in pairs]
    return Summary(
        sides,
        ratio(plain_s, [ours["cpu_s"] for _, ours in pairs]),
        ratio(plain_s, [ours["cpu_s"] - _one_off_cpu_s(ours) for _, ours in pairs]),
        ratio([plain["wall_s"] for plain, _ in pairs], [ours["wall_s"] for _, ours in pairs]),
        unlike,
    )


def _one_off_cpu_s(row: dict[str, Any]) -> float:
    beside = _beside_cpu_s(row)
    return beside if beside > ONE_OFF_CPU_S else 0.0


def _beside_cpu_s(row: dict[str, Any]) -> float:
    return row["cpu_s"] - (row["build_cpu_s"] or 0.0) if row["builds"] else 0.0


def text(summary: Summary, cores: int, target: bool = True) -> str:
    """The table and what to read beside it; ``target`` only where these are the real candidates."""
    rows = []
    for name, side in summary.sides.items():
        per_hour = 3600 * cores / side.mean_cpu_s if side.mean_cpu_s else None
        spreads = [s.text() if s else None for s in (side.cpu_s, side.build_cpu_s, side.wall_s)]
        outcomes = ", ".join(f"{n} {what}" for what, n in sorted(side.outcomes.items()))
        rows.append([name, side.cpu_s.n if side.cpu_s else 0, *spreads, number(per_hour, 0), outcomes])
    head = ["side", "n built", "CPU-s", "of that building", "wall s", f"an hour on {cores} cores", "outcomes"]
    lines = [table(head, rows), ""]
    ratios = (
        ("CPU seconds", summary.cpu_ratio),
        ("CPU seconds without what is made once", summary.later_cpu_ratio),
        ("wall", summary.wall_ratio),
    )
    for what, found in ratios:
        if found:
            lines.append(f"plain / ours, {what}: {found.text()} over {found.n} pairs (geometric mean, 95 %)")
    ours = summary.sides.get("ours")
    if target and ours and ours.cpu_s:
        met = "met" if ours.cpu_s.median <= TARGET_CPU_S else "not met"
        lines.append(f"target: median at most {TARGET_CPU_S:.0f} CPU-s: {met} ({ours.cpu_s.median:.1f})")
    if ours and ours.one_off_cpu_s:
        times = ", ".join(f"{seconds:.0f}" for seconds in ours.one_off_cpu_s)
        lines.append(f"made once, and counted above: {times} CPU-s beside building")
    for name, side in summary.sides.items():
        if side.faults:
            lines.append(f"{name} wrote no answer for {side.faults} candidates: see logs/")
    lines += [f"not alike: {one}" for one in summary.unlike]
    return "\n".join(lines)
