"""What the processes of a long run hold, sample by sample, and whether it grows."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.left_behind import Watch

LIMITS_KIB = {"snakemake": 65536, "evaluator": 4096, "judge": 4096}
"""Growth of the resident set between the second fifth of a run and its last that is no leak, in KiB. Snakemake keeps a
little about every job that it has done."""
JUDGES_QUANTILE = 10
"""A judge is as large as its problem, and the order of problems is Snakemake's: what tells is the smallest tenth, which
is what a judge has from its evaluator before it does anything."""
LIMIT_DESCRIPTORS = 4
FIFTHS = 5


_own: set[int] = set()
"""Processes whose exit code their starter waits for."""


def sample(watch: Watch, results: Path) -> dict[str, Any]:
    """One look at everything. Sizes in KiB as in /proc/PID/status (proc(5)); ``done``: records of the last stage."""
    pids = watch.pids()
    _own.update(pid for pid in pids if _is_snakemake(pid))
    watch.reap_orphans(_own)  # as init would: an evaluator that has ended
    warm = watch.evaluator_pids()
    judges = [held for held in map(_held, watch.judge_pids()) if held is not None]
    zombies = sum(held is None for held in map(_held, pids))
    return {
        "done": sum(1 for _ in (results / "memory").rglob("[0-9]*.json")),
        "processes": len(pids),
        "zombies": zombies,
        "snakemake": {pid: _held(pid) for pid in pids if _is_snakemake(pid)},
        "evaluator": {pid: _held(pid) for pid in warm},
        "judges": [held["rss_kib"] for held in judges],
        "shared_memory": len(os.listdir("/dev/shm")),
        "temporary": len(list(watch.temporary.iterdir())),
        "available_kib": _available_kib(),
    }


def _held(pid: int) -> dict[str, int] | None:
    """Resident set and open descriptors; None where it has ended or is ending."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(f"/proc/{pid}/status").read_text()
        rss = next((line for line in text.splitlines() if line.startswith("VmRSS:")), None)
        if rss is not None:
            return {"rss_kib": int(rss.split()[1]), "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    return None


def _is_snakemake(pid: int) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[1:3] == [b"-m", b"snakemake"]
    return False


def _available_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


@dataclass(frozen=True)
class Growth:
    """Of one quantity of one process between the second fifth of its samples and the last; the first is its start."""

    what: str
    unit: str
    candidates: int
    """How many went through meanwhile."""
    before: float
    after: float
    limit: float

    @property
    def grows(self) -> bool:
        return self.after - self.before > self.limit

    def __str__(self) -> str:
        return f"{self.what}: {self.before:,.0f} to {self.after:,.0f} {self.unit} over {self.candidates:,} candidates"


def growths(samples: Sequence[dict[str, Any]]) -> list[Growth]:
    """Of every process that lived for most of a run, and of judges, which live for a second."""
    found = []
    for kind in ("snakemake", "evaluator"):
        for pid in sorted({pid for one in samples for pid in one[kind]}):
            held = [(one["done"], one[kind][pid]) for one in samples if one[kind].get(pid)]
            if len(held) < max(2 * FIFTHS, len(samples) // 2):
                continue  # a planning Snakemake's child, or one that was started near the end
            rss = [(done, what["rss_kib"]) for done, what in held]
            open_ = [(done, what["descriptors"]) for done, what in held]
            found.append(_growth(f"{kind}, resident", "KiB", rss, LIMITS_KIB[kind], statistics.median))
            # Each client takes two while it is served: the least is what stays.
            found.append(_growth(f"{kind}, descriptors", "", open_, LIMIT_DESCRIPTORS, min))
    judges = [(one["done"], rss) for one in samples for rss in one["judges"]]
    if len(judges) >= 2 * FIFTHS:
        found.append(_growth("smallest tenth of judges, resident", "KiB", judges, LIMITS_KIB["judge"], _tenth))
    zombies = [(one["done"], one["zombies"]) for one in samples]
    if len(zombies) >= 2 * FIFTHS:
        found.append(_growth("processes that have ended and nobody reaped", "", zombies, 1, min))
    return found


def _growth(what: str, unit: str, values: Sequence[tuple[int, float]], limit: float, of: Any) -> Growth:
    size = len(values) // FIFTHS
    second, last = values[size : 2 * size], values[-size:]
    return Growth(what, unit, last[-1][0] - second[0][0], _of(of, second), _of(of, last), limit)


def _tenth(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=JUDGES_QUANTILE)[0] if len(values) > 1 else values[0]


def _of(of: Any, values: Iterable[tuple[int, float]]) -> float:
    return float(of([value for _, value in values]))
