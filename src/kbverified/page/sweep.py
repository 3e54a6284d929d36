"""The leaderboard at other tolerances: leaderboard.build on the same rows with the verdicts of another tau.

The page's slider moves verdicts at once, but a mean needs its interval, which is a bootstrap that Python draws. So the
means of some tolerances are made in advance, each by the one computation that makes the leaderboard itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.leaderboard.build import build
from kbverified.leaderboard.model import Leaderboard
from kbverified.page.rule import Step
from kbverified.records import ProblemRecord
from kbverified.verdicts import Test

TAUS = tuple(float(f"{10 ** (half / 2):.3g}") for half in range(-12, -1))
"""Two for each factor of ten from 1e-6 to 0.1: positions of the slider, which has twenty, at its three digits."""


def boards(
    rows: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[Test, Step]],
    audits: Mapping[ProblemKey, ProblemRecord | None],
    shown: Leaderboard,
    settings: AggregationSettings,
    taus: Sequence[float] = TAUS,
) -> list[tuple[float, Leaderboard]]:
    """(tau, leaderboard) for each tau, applied to every dtype. ``steps`` are those of ``rows``.

    Raises as leaderboard.build does.
    """
    names = [summary.generator for summary in shown.generators]
    found = []
    for tau in taus:
        judged = [at(row, step, tau) for row, step in zip(rows, steps, strict=True)]
        frames = {name: kernel_table.frame(row for row in judged if row["generator"] == name) for name in names}
        other = settings.model_copy(update={"tau": dict.fromkeys(settings.tau, tau)})
        found.append((tau, build(frames, audits, other)))
    return found


def at(row: Mapping[str, Any], step: Mapping[Test, Step], tau: float) -> dict[str, Any]:
    """A row of the kernel table with the verdicts of another tau, as far as the leaderboard reads them."""
    changed: dict[str, Any] = {"tau": tau if row["tau"] is not None else None}
    for test, one in step.items():
        changed[f"verdict_{test}"] = one.at(tau)
        changed[f"why_null_verdict_{test}"] = one.why_null if one.at(tau) is None else None
    return {**row, **changed}
