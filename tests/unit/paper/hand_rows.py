"""Kernel tables made row by row, for topics whose expected numbers are worked out by hand in a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import record_factory as make

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.paper import inputs
from kbverified.paper.inputs import PaperInputs

SUITE = "kb"
DEVICE = {"device_kind": "cuda", "device_name": "H200", "driver": "580", "torch": "2.11.0", "cuda": "13.0"}


def row(generator: str, problem: str, sample: int = 0, **columns: Any) -> dict[str, Any]:
    """One verified fp32 candidate, and whatever else is named; every other column is null, ``not made``.

    ``verdict`` stands for all three tests, ``speed`` for the naive, published and matched arm, ``memory`` for all four
    ratios.
    """
    key = ProblemKey(columns.pop("suite", SUITE), problem)
    verdict, speed, memory = (columns.pop(name, None) for name in ("verdict", "speed", "memory"))
    values: dict[str, Any] = {
        "generator": generator,
        "suite": key.suite,
        "problem": problem,
        "sample": sample,
        "level": key.level,
        "number": key.number,
        "dtype": "fp32",
        "tau": 1e-3,
        "matched_from": "time-tf32",
        **{f"verdict_{test}": verdict or "pass" for test in ("standard", "hidden", "hardened")},
        **{f"speedup_{arm}": speed for arm in ("naive", "published", "matched")},
        **{f"memory_ratio_{field}": memory for field in kernel_table.MEMORY_FIELDS},
        **DEVICE,
    }
    values |= columns
    return kernel_table.complete(values, dict.fromkeys(kernel_table.GROUPS, "not made"))


def paper_inputs(
    rows: Iterable[Mapping[str, Any]],
    problems: Iterable[str],
    *,
    generators: Iterable[str] = (),
    degenerate: Iterable[str] = (),
    undecidable: Iterable[str] = (),
    **settings: Any,
) -> PaperInputs:
    """Inputs from rows. ``problems``: the selected ones of SUITE; ``generators``: further ones without a candidate."""
    made = list(rows)
    names = list(dict.fromkeys([*(r["generator"] for r in made), *generators]))
    tables: dict[str, pd.DataFrame] = {n: kernel_table.frame(r for r in made if r["generator"] == n) for n in names}
    audits = {ProblemKey(SUITE, name): _audit(name, name in degenerate, name in undecidable) for name in problems}
    chosen = AggregationSettings(**({"resamples": 400} | settings))
    return inputs.make(tables, audits, chosen, (1e-3, 1e-4))


def _audit(name: str, degenerate: bool, undecidable: bool) -> Any:
    key = ProblemKey(SUITE, name)
    if not undecidable:
        return make.problem(key, degenerate=degenerate)
    passes = make.OracleErrors(kind="fp64", scaled_error=1e-6, reference_scaled_error=1e-6)
    laws = (make.HardenedAudit(law="h1_scale_and_offset", applicable=True, replay=passes),)
    return make.problem(key, degenerate=degenerate, hardened=laws)
