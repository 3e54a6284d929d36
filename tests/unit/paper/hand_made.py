"""Kernel tables made by hand: a row says what matters for a test, the rest is null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import record_factory as rf

from kbverified import kernel_table, protocol
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.paper import inputs as paper_inputs

SETTINGS = AggregationSettings(resamples=200)
D1, D2, D3, D4 = protocol.DISTRIBUTIONS


def sample(
    problem: str,
    number: int = 0,
    *,
    tolerance: float | None = 1e-6,
    hidden: float | None = None,
    verdict: str | None = None,
    speedups: Mapping[str, float | None] | None = None,
    dtype: str = "fp32",
    tau: float | None = None,
    suite: str = "kb",
    **columns: Any,
) -> dict[str, Any]:
    """One candidate's row, without its generator's name.

    ``tolerance``: the critical one under the original inputs, and ``hidden`` under x3 (None: the same); ``verdict``: a
    failure that no tolerance can mend, in every test. ``speedups`` by arm.
    """
    tau = {"fp32": 1e-3, "bf16": 1e-2}[dtype] if tau is None else tau
    needs = {D1: tolerance, D2: tolerance if hidden is None else hidden, D3: 1e-7, D4: 1e-7}
    if verdict is not None:
        needs = dict.fromkeys(needs)
    beyond = [name for name, value in needs.items() if value is not None and value > tau]
    level, _, rest = problem.removeprefix("level").partition("_")
    return {
        "suite": suite,
        "problem": problem,
        "sample": number,
        "level": int(level),
        "number": int(rest),
        "dtype": dtype,
        "tau": tau,
        "device_kind": "cuda",
        "device_name": "H200",
        "applicable_distributions": ", ".join(needs),
        "weights_match": True,
        "verdict_standard": verdict or ("wrong_value" if D1 in beyond else "pass"),
        "verdict_hidden": verdict or ("wrong_value" if beyond else "pass"),
        "failed_hidden": ", ".join(beyond) or None,
        **{f"critical_tolerance_{name}": value for name, value in needs.items()},
        **{f"speedup_{arm}": value for arm, value in (speedups or {}).items()},
        **columns,
    }


def arms(naive: float, published: float | None = None, matched: float | None = None) -> dict[str, float | None]:
    """Speedups by arm; those not given are the naive one."""
    return {
        "naive": naive,
        "published": naive if published is None else published,
        "matched": naive if matched is None else matched,
    }


def make(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    problems: Sequence[str],
    *,
    settings: AggregationSettings = SETTINGS,
    taus: Sequence[float] = (1e-3, 1e-4),
    suites: Sequence[str] = ("kb",),
    degenerate: Sequence[str] = (),
) -> paper_inputs.PaperInputs:
    """Inputs of generators (name -> rows from ``sample``) on some problems of each suite."""
    keys = [ProblemKey(suite, problem) for suite in suites for problem in problems]
    audits = {key: rf.problem(key, degenerate=key.problem in degenerate) for key in keys}
    tables = {
        name: kernel_table.frame([kernel_table.complete({**row, "generator": name}, {}) for row in samples])
        for name, samples in rows.items()
    }
    return paper_inputs.make(tables, audits, settings, taus)


def cells(table: Any, **wanted: Any) -> dict[str, Any]:
    """The one row of a table in which these columns have these values, by column name."""
    names = [column.name for column in table.columns]
    found = [dict(zip(names, row)) for row in table.rows]
    hits = [row for row in found if all(row[name] == value for name, value in wanted.items())]
    assert len(hits) == 1, f"{len(hits)} rows with {wanted}"
    return hits[0]
