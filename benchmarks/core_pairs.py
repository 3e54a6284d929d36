"""Which cores share one? A loop on one core, timed while every other core is busy in turn.

    python -m benchmarks.core_pairs [--cores 0 1] [--window-s 0.1] [--json FILE]

The last line, where there is one, is what the stages are to be told in the environment.

A virtual machine may show every hardware thread as a core of its own ("Thread(s) per core: 1"): then nothing tells
which two slow each other down, and cores that are kept for a measurement (``affinity``) may be the other halves of
busy ones. Each named core runs the same Python loop, alone and beside each other core; what it still gets done, as a
share of what it does alone, is 1 beside a core of its own and some 0.5 to 0.8 beside the other half of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.summaries import table, write
from kbverified.affinity import SIBLINGS_VARIABLE

SHARED_BELOW = 0.85
"""Of its own pace: below this a core shares with the other. Noise and boost clocks stay above it."""
REPEATS = 3


def counted(core: int, window_s: float) -> int:
    """Rounds of a loop that this process gets done on one core within a window."""
    os.sched_setaffinity(0, {core})
    rounds, until = 0, time.perf_counter() + window_s
    while time.perf_counter() < until:
        sum(range(200))
        rounds += 1
    return rounds


def _spin(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        sum(range(1000))


def paces(core: int, others: list[int], window_s: float) -> dict[int, float]:
    """By other core: what ``core`` does while that one is busy, as a share of what it does alone; median of three."""
    context = multiprocessing.get_context("fork")
    found: dict[int, list[float]] = {other: [] for other in others}
    before = os.sched_getaffinity(0)
    try:
        for other in others * REPEATS:
            alone = counted(core, window_s)
            busy = context.Process(target=_spin, args=(other,), daemon=True)
            busy.start()
            time.sleep(0.01)
            found[other].append(counted(core, window_s) / alone)
            busy.kill()
            busy.join()
    finally:
        os.sched_setaffinity(0, before)
    return {other: statistics.median(shares) for other, shares in found.items()}


def partners(pace: Mapping[int, float]) -> list[int]:
    """The cores that share with the one whose paces these are."""
    return sorted(other for other, share in pace.items() if share < SHARED_BELOW)


def everywhere(found: Mapping[int, Mapping[int, float]], allowed: Sequence[int]) -> list[tuple[int, int]] | None:
    """All pairs, if those that were found lie equally far apart, as halves of cores do: neighbours (0 and 1, 2 and 3),
    or the first and the second half of all. None where they do not, or there are none."""
    pairs = {tuple(sorted((core, *partners(pace)))) for core, pace in found.items()}
    if any(len(pair) != 2 for pair in pairs):
        return None
    apart = {pair[1] - pair[0] for pair in pairs}
    step = apart.pop()
    if apart or len(allowed) % (2 * step) or any(pair[0] // step % 2 for pair in pairs):
        return None
    return [(first, first + step) for first in range(len(allowed)) if first // step % 2 == 0]


def text(found: Mapping[int, Mapping[int, float]]) -> str:
    """A line for each core: with whom it shares, and its pace beside the slowest and the typical other."""
    lines = []
    for core, pace in found.items():
        slowest = min(pace, key=lambda other: pace[other])
        shares = ", ".join(map(str, partners(pace))) or "none"
        typical = statistics.median(pace.values())
        lines.append([str(core), shares, f"{pace[slowest]:.2f} beside {slowest}", f"{typical:.2f}"])
    return table(["core", "shares with", "slowest", "median"], lines)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 for a core that this process may not use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="+", metavar="CORE", help="default: the first two")
    parser.add_argument("--window-s", type=float, default=0.1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    allowed = sorted(os.sched_getaffinity(0))
    cores = arguments.cores or allowed[:2]
    if foreign := sorted(set(cores) - set(allowed)):
        print(f"core_pairs: --cores {foreign[0]}: this process may use {allowed}", file=sys.stderr)
        return 2
    if len(allowed) < 2:
        print("core_pairs: there is one core only, and nothing to share it with", file=sys.stderr)
        return 2
    found = {core: paces(core, [other for other in allowed if other != core], arguments.window_s) for core in cores}
    if arguments.json:
        write(
            arguments.json, {str(core): {str(other): share for other, share in p.items()} for core, p in found.items()}
        )
    print(text(found))
    if allowed == list(range(len(allowed))) and (pairs := everywhere(found, allowed)):
        print(f"{SIBLINGS_VARIABLE}={';'.join(f'{a},{b}' for a, b in pairs)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
