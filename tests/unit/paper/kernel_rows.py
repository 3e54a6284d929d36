"""Kernel tables written by hand, for topics of the paper: every column that a test does not name is null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import record_factory as make

from kbverified import kernel_table, protocol
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.inputs import make as make_inputs
from kbverified.records import ProblemRecord

EVERY = tuple(protocol.DISTRIBUTIONS)
GPU = {
    "device_kind": "cuda", "device_name": "H200", "device_uuid": "GPU-1", "driver": "580", "torch": "2.11.0",
    "cuda": "13.0", "sandbox": "full", "gate_mode": "ieee", "package_version": "0.1.0",
}  # fmt: skip


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
    """One row; ``tolerances`` in the order of the protocol's distributions, ``failed`` as failed_hidden names them."""
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
    audits = {key: make.problem(key) for key in named} | dict(problems)
    names = list(dict.fromkeys([*generators, *(r["generator"] for r in listed)]))
    tables = {name: kernel_table.frame([r for r in listed if r["generator"] == name]) for name in names}
    return make_inputs(tables, audits, settings or AggregationSettings(resamples=400), taus, **more)
