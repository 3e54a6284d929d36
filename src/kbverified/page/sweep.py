"""The leaderboard at other tolerances: leaderboard.build on the same rows with the verdicts of another tau.

The page's slider moves verdicts at once, but a mean needs its interval, which is a bootstrap that Python draws. So the
means of some tolerances are made in advance, each by the one computation that makes the leaderboard itself.

Verdicts are those of rule.py, which has the records: unlike tau_sweep.py, which has the table alone, it knows the
hardened verdict at a tau that is looser than the run's, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.leaderboard.build import build
from kbverified.leaderboard.model import Leaderboard
from kbverified.page.rule import Step
from kbverified.records.problem import ProblemRecord
from kbverified.verdicts import TESTS, Test

TAUS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Positions of the slider. Each costs a leaderboard: 3 CPU seconds at 8,750 candidates."""


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
    tables = {}
    for summary in shown.generators:
        here = [i for i, row in enumerate(rows) if row["generator"] == summary.generator]
        tables[summary.generator] = (kernel_table.frame(rows[i] for i in here), [steps[i] for i in here])
    found = []
    for tau in taus:
        frames = {name: at(table, of_rows, tau) for name, (table, of_rows) in tables.items()}
        other = settings.model_copy(update={"tau": dict.fromkeys(settings.tau, tau)})
        found.append((tau, build(frames, audits, other)))
    return found


def at(table: pd.DataFrame, steps: Sequence[Mapping[Test, Step]], tau: float) -> pd.DataFrame:
    """A kernel table with the verdicts of another tau, as far as the leaderboard reads them; ``steps``: of its rows."""
    changed: dict[str, list[Any]] = {}
    for test in TESTS:
        verdicts = [step[test].at(tau) for step in steps]
        changed[f"verdict_{test}"] = verdicts
        whys = [step[test].why_null if verdict is None else None for step, verdict in zip(steps, verdicts, strict=True)]
        changed[f"why_null_verdict_{test}"] = whys
    columns = {name: pd.array(values, dtype=table[name].dtype) for name, values in changed.items()}
    return table.assign(tau=table["tau"].where(table["tau"].isna(), tau), **columns)
