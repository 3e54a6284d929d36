"""Kernel tables made by hand: a row says what matters for a test, the rest is null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import record_factory as rf

from kbverified import kernel_table, protocol
from kbverified.aggregation import AggregationSettings
from kbverified.kernel_table import MEMORY_FIELDS
from kbverified.keys import ProblemKey
from kbverified.paper import inputs as paper_inputs
from kbverified.paper.inputs import PaperInputs
from kbverified.records.problem import ProblemRecord

SETTINGS = AggregationSettings(resamples=200)
EVERY = D1, D2, D3, D4 = tuple(protocol.DISTRIBUTIONS)
GPU = {
    "device_kind": "cuda", "device_name": "H200", "device_uuid": "GPU-1", "driver": "580", "torch": "2.11.0",
    "cuda": "13.0", "sandbox": "full", "gate_mode": "ieee", "package_version": "0.1.0",
}  # fmt: skip


# --- rows ---------------------------------------------------------------------------------------------------


def row(
    generator: str,
    problem: str,
    sample: int = 0,
    hidden: str | None = "pass",
    *,
    suite: str = "s",
    standard: str | None = "as hidden",
    hardened: str | None = "as hidden",
    tolerances: Sequence[float | None] = (1e-6, 1e-6, 1e-6, 1e-6),
    failed: Sequence[str] = (),
    applicable: Sequence[str] = EVERY,
    dtype: str | None = "fp32",
    tau: float | None = 1e-3,
    **columns: Any,
) -> dict[str, Any]:
    """One row with the verdicts that it is given; they need not follow from its ``tolerances``.

    ``tolerances``: in the order of the protocol's distributions; ``failed``: as failed_hidden names them; ``columns``:
    any other column of the table.
    """
    key = ProblemKey(suite, problem)
    values: dict[str, Any] = {
        "generator": generator, "suite": suite, "problem": problem, "sample": sample, "level": key.level,
        "number": key.number, "dtype": dtype, "tau": tau, "applicable_distributions": ", ".join(applicable),
        "verdict_hidden": hidden, "failed_hidden": ", ".join(failed) or None,
        "verdict_standard": hidden if standard == "as hidden" else standard,
        "verdict_hardened": hidden if hardened == "as hidden" else hardened,
        **{f"critical_tolerance_{name}": value for name, value in zip(EVERY, tolerances)},
        **GPU,
    }  # fmt: skip
    return kernel_table.complete(values | columns, {})


def won(
    generator: str,
    problem: str,
    sample: int = 0,
    speed: float | tuple[float | None, ...] | None = None,
    *,
    memory: float | None = None,
    verdict: str = "pass",
    **more: Any,
) -> dict[str, Any]:
    """A row with its measurements, of a candidate that passes.

    ``speed``: of all three arms, or (naive, published, matched); ``memory``: all four ratios; ``more``: as for
    ``row``.
    """
    speeds = speed if isinstance(speed, tuple) else (speed,) * 3
    columns = {f"speedup_{arm}": value for arm, value in zip(("naive", "published", "matched"), speeds)}
    columns |= {f"memory_ratio_{field}": memory for field in MEMORY_FIELDS}
    return row(generator, problem, sample, verdict, **({"matched_from": "time-tf32"} | columns | more))


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
    """A row whose verdicts follow from its tolerances, without its generator's name.

    ``tolerance``: the critical one under the original inputs, and ``hidden`` under x3 (None: the same); ``verdict``: a
    failure that no tolerance can mend, in every test. ``speedups`` by arm.
    """
    tau = {"fp32": 1e-3, "bf16": 1e-2}[dtype] if tau is None else tau
    needs = {D1: tolerance, D2: tolerance if hidden is None else hidden, D3: 1e-7, D4: 1e-7}
    if verdict is not None:
        needs = dict.fromkeys(needs)
    beyond = [name for name, value in needs.items() if value is not None and value > tau]
    return row(
        "", problem, number, verdict or ("wrong_value" if beyond else "pass"),
        standard=verdict or ("wrong_value" if D1 in beyond else "pass"), hardened=None, tolerances=list(needs.values()),
        failed=beyond, dtype=dtype, tau=tau, suite=suite,
        **({"weights_match": True} | {f"speedup_{arm}": value for arm, value in (speedups or {}).items()} | columns),
    )  # fmt: skip


def arms(naive: float, published: float | None = None, matched: float | None = None) -> dict[str, float | None]:
    """Speedups by arm; those not given are the naive one."""
    return {
        "naive": naive,
        "published": naive if published is None else published,
        "matched": naive if matched is None else matched,
    }


# --- what a topic gets, and what it made ---------------------------------------------------------------------


def inputs(
    rows: Iterable[Mapping[str, Any]],
    problems: Mapping[ProblemKey, ProblemRecord] | Iterable[str] = (),
    *,
    generators: Sequence[str] = (),
    settings: AggregationSettings | None = None,
    taus: Sequence[float] = (1e-3, 1e-4),
    **more: Any,
) -> PaperInputs:
    """Of rows of any generators; ``problems`` as audits, or as names of plain active ones of suite ``s``."""
    listed = list(rows)
    named = {ProblemKey(r["suite"], r["problem"]) for r in listed}
    if not isinstance(problems, Mapping):
        named |= {ProblemKey("s", name) for name in problems}
        problems = {}
    audits = {key: rf.problem(key) for key in named} | dict(problems)
    names = list(dict.fromkeys([*generators, *(r["generator"] for r in listed)]))
    tables = {name: kernel_table.frame([r for r in listed if r["generator"] == name]) for name in names}
    return paper_inputs.make(tables, audits, settings or SETTINGS, taus, **more)


def make(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    problems: Sequence[str],
    *,
    settings: AggregationSettings = SETTINGS,
    taus: Sequence[float] = (1e-3, 1e-4),
    suites: Sequence[str] = ("kb",),
    degenerate: Sequence[str] = (),
) -> PaperInputs:
    """Inputs of generators (name -> rows from ``sample``) on some problems of each suite."""
    keys = [ProblemKey(suite, problem) for suite in suites for problem in problems]
    audits = {key: rf.problem(key, degenerate=key.problem in degenerate) for key in keys}
    listed = [{**one, "generator": name} for name, samples in rows.items() for one in samples]
    return inputs(listed, audits, generators=list(rows), settings=settings, taus=taus)


def cells(table: Any, **wanted: Any) -> dict[str, Any]:
    """The one row of a table in which these columns have these values, by column name."""
    names = [column.name for column in table.columns]
    found = [dict(zip(names, row)) for row in table.rows]
    hits = [row for row in found if all(row[name] == value for name, value in wanted.items())]
    assert len(hits) == 1, f"{len(hits)} rows with {wanted}"
    return hits[0]
