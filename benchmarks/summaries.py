"""Numbers of many candidates in a few: quartiles, ratios with intervals, tables. Pure, torch-free."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbverified import lease, statistics
from kbverified.compilation import toolchain
from kbverified.records.files import write_text


@dataclass(frozen=True)
class Spread:
    """Of one quantity over many candidates, in its own unit."""

    n: int
    low: float
    """First quartile (linear interpolation)."""
    median: float
    high: float
    """Third quartile."""
    largest: float
    mean: float

    def text(self, digits: int = 1) -> str:
        return f"{self.median:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are there; None where there is none."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not known.size:
        return None
    low, middle, high = (float(x) for x in np.quantile(known, [0.25, 0.5, 0.75]))
    return Spread(int(known.size), low, middle, high, float(known.max()), float(known.mean()))


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of a ratio over pairs, with its 95 % interval by bootstrap over pairs."""

    n: int
    value: float
    low: float | None
    """None for fewer pairs than an interval needs (statistics.minimum_units)."""
    high: float | None

    def text(self) -> str:
        interval = f" [{self.low:.2f}, {self.high:.2f}]" if self.low is not None else ""
        return f"{self.value:.2f}{interval}"


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio | None:
    """above[i] / below[i] over pairs; None for no pair. Raises ValueError for unequal lengths or what is not > 0."""
    if len(above) != len(below) or not all(value > 0 for value in (*above, *below)):
        raise ValueError(f"{len(above)} and {len(below)} values are no pairs of positive numbers")
    if not above:
        return None
    ratios = [a / b for a, b in zip(above, below)]
    counts = statistics.resample_counts(len(ratios), statistics.seed_from(ratios))
    interval = statistics.geometric_mean_interval(ratios, counts)
    value = float(np.exp(np.mean(np.log(ratios))))
    return Ratio(len(ratios), value, *(interval if interval is not None else (None, None)))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; None is written as a dash."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append(f"| {' | '.join('–' if cell is None else str(cell) for cell in row)} |")
    return "\n".join(lines)


def number(value: float | None, digits: int = 1) -> str | None:
    """With so many digits; None stays None."""
    return None if value is None else f"{value:.{digits}f}"


def as_json(value: Any) -> str:
    """Dataclasses as objects, indented."""
    return json.dumps(value, indent=1, default=asdict) + "\n"


def write(path: Path, value: Any) -> None:
    """Write JSON atomically. Raises OSError."""
    write_text(path, as_json(value))


def environment(arch: str | None) -> dict[str, Any]:
    """What a time depends on: machine, compilers, torch, revision. Times of different ones do not belong together."""
    found = toolchain.find(arch)
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "gpus": [gpu.name for gpu in lease.visible_gpus()],
        "python": platform.python_version(),
        "torch": found.torch,
        "cxx": found.cxx_version,
        "nvcc": found.nvcc_version,
        "arch": arch,
        "system": platform.platform(),
        "revision": _revision(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _revision() -> str | None:
    """Of the working tree, ``-dirty`` where it differs; KBV_REVISION where a copy came without git."""
    told = os.environ.get("KBV_REVISION")
    if told:
        return told
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=30, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
