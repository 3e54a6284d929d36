"""What the page takes from the leaderboard: estimates with their intervals, conditions, and what was left out."""

from __future__ import annotations

from typing import Any

from kbverified.leaderboard.headline import ARM_MEANING, conditions_lines, left_out
from kbverified.leaderboard.model import Audited, Entry, Estimate, Leaderboard
from kbverified.page.packing import rounded

DIGITS = 6


def of_leaderboard(board: Leaderboard) -> dict[str, Any]:
    """Plain data of a leaderboard. Its means are for the configured tau alone."""
    c = board.conditions
    return {
        "tau": dict(c.tau),
        "confidence": c.confidence,
        "headline": {"arm": c.headline_arm, "test": c.headline_test},
        "arms": [{"arm": arm, "meaning": ARM_MEANING[arm]} for arm in c.arms],
        "suites": list(c.suites),
        "environments": list(c.environments),
        "findings": c.findings,
        "lines": conditions_lines(board),
        "audited": board.audit is not None,
        **means(board),
        "generators": [
            {"generator": g.generator, "dtype": g.dtype, "n_candidates": g.n_candidates, "to_review": list(g.to_review)}
            for g in board.generators
        ],
        "excluded": [[f"{e.suite}/{e.problem}", e.reason] for e in board.excluded],
    }


def means(board: Leaderboard) -> dict[str, Any]:
    """The estimates of a leaderboard alone: what another tau changes."""
    return {
        "entries": [_entry(entry) for entry in board.entries],
        "common": [
            {
                "suite": one.suite,
                "dtype": one.dtype,
                "arm": one.arm,
                "test": one.test,
                "n_problems": one.n_problems,
                "correct_speedup": [[name, _estimate(e)] for name, e in one.correct_speedup.items()],
            }
            for one in board.common
        ],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "generator": entry.generator,
        "dtype": entry.dtype,
        "suite": entry.suite,
        "level": entry.level,
        "arm": entry.arm,
        "test": entry.test,
        "n_problems": entry.n_problems,
        "n_without_candidate": entry.n_without_candidate,
        "n_samples": entry.n_samples,
        "n_solved": entry.n_solved,
        "n_implausible": entry.n_implausible,
        "correctness": _estimate(entry.correctness),
        "correct_speedup": _estimate(entry.correct_speedup),
        "fast_1": _estimate(entry.fast_p["1"]) if "1" in entry.fast_p else None,
        "memory": _estimate(entry.memory_efficiency["allocator_peak"]),
        "audited": _audited(entry.audited) if entry.audited is not None else None,
    }


def _audited(audited: Audited) -> dict[str, Any]:
    return {
        "correct_speedup": _estimate(audited.correct_speedup),
        "correctness": _estimate(audited.correctness),
        "left_out": left_out(audited),
    }


def _estimate(estimate: Estimate) -> list[Any]:
    """Value, low, high, n, why_null."""
    ends = (estimate.value, estimate.low, estimate.high)
    return [*(rounded(end, DIGITS) for end in ends), estimate.n, estimate.why_null]
