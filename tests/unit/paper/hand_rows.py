"""Rows for the topics of speed and memory: kernel_rows.py's, with speedups and memory ratios in short."""

from __future__ import annotations

from typing import Any

import kernel_rows

from kbverified.kernel_table import MEMORY_FIELDS


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
    """One candidate. ``speed``: of all three arms, or (naive, published, matched); ``memory``: all four ratios.

    ``more``: as kernel_rows.row takes it, columns of the table among it.
    """
    arms = speed if isinstance(speed, tuple) else (speed,) * 3
    columns = {f"speedup_{arm}": value for arm, value in zip(("naive", "published", "matched"), arms)}
    columns |= {f"memory_ratio_{field}": memory for field in MEMORY_FIELDS}
    return kernel_rows.row(generator, problem, sample, verdict, **({"matched_from": "time-tf32"} | columns | more))
