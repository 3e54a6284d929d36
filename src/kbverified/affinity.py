"""Cores that are kept for measuring: a compile job or an import beside a launch-bound measurement disturbs it.

Each GPU has a few cores of its own. Every stage stays off them until it holds the device; then the judge and its
workers move there. Where a core runs several hardware threads, one of each is measured on and the others are nobody's:
what runs beside a measurement on the same core slows it down. Torch-free. Where there are too few cores for that,
nothing is reserved and the record says so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from kbverified import lease
from kbverified.protocol import RESERVED_CORES_PER_DEVICE


def sharing(allowed: Iterable[int]) -> list[str]:
    """Uuids of the GPUs whose cores are taken out of these, in their order.

    A job that may use every core of the machine shares them with whoever uses the other GPUs, though it sees one GPU
    alone. One that has cores of its own, from SLURM or taskset, shares them with those that it sees.
    """
    whole = len(set(allowed)) == os.cpu_count()
    return [gpu.uuid for gpu in (lease.every_gpu() if whole else lease.visible_gpus())]


SIBLINGS_VARIABLE = "KBV_CORE_SIBLINGS"
"""``0,16;1,17``: which hardware threads share a core, where the machine does not say (benchmarks/core_pairs.py)."""
_TOPOLOGY = Path("/sys/devices/system/cpu")


def siblings(allowed: Iterable[int]) -> dict[int, frozenset[int]]:
    """By hardware thread (what a system calls a CPU): those that share a core with it, itself among them.

    Raises ValueError where the variable holds anything but numbers.
    """
    if told := os.environ.get(SIBLINGS_VARIABLE):
        try:
            groups = [frozenset(map(int, group.split(","))) for group in told.split(";")]
        except ValueError:
            raise ValueError(f"{SIBLINGS_VARIABLE}={told!r}: expected threads of a core as 0,16;1,17") from None
        named = {thread: group for group in groups for thread in group}
        return {thread: named.get(thread, frozenset((thread,))) for thread in allowed}
    return {thread: _listed(_TOPOLOGY / f"cpu{thread}/topology/thread_siblings_list", thread) for thread in allowed}


def _listed(path: Path, thread: int) -> frozenset[int]:
    """A kernel's list of numbers, ``0-1`` or ``0,16``; the thread alone where there is none."""
    try:
        ends = [part.partition("-") for part in path.read_text().strip().split(",")]
        return frozenset(n for low, _, high in ends for n in range(int(low), int(high or low) + 1))
    except (OSError, ValueError):
        return frozenset((thread,))


def reserved_cores(
    allowed: Collection[int], gpus: Sequence[str], shared: Mapping[int, frozenset[int]]
) -> dict[str, frozenset[int]]:
    """The hardware threads that each device is measured on, out of those this job may use: each on a core of its own.

    At least as many cores must be left over as are reserved. Where there are too few cores for that, threads are
    counted instead, whole cores first; {} where these are too few as well. ``shared``: of ``siblings``.
    """
    mine = frozenset(allowed)
    cores = [sorted(core) for core in sorted({shared[one] & mine for one in mine}, key=min)]
    for units in ([core[:1] for core in cores], cores):
        dealt = _dealt(units, gpus)
        if 2 * sum(map(len, dealt.values())) <= sum(map(len, units)):
            return dealt
    return {}


def _dealt(units: Sequence[list[int]], gpus: Sequence[str]) -> dict[str, frozenset[int]]:
    """Whole units for each GPU, from the first on, until it has RESERVED_CORES_PER_DEVICE threads or none is left."""
    dealt: dict[str, frozenset[int]] = {}
    rest = iter(units)
    for gpu in gpus:
        mine: list[int] = []
        while len(mine) < RESERVED_CORES_PER_DEVICE and (unit := next(rest, None)) is not None:
            mine += unit
        dealt[gpu] = frozenset(mine)
    return dealt


def closed_to_others(kept: Iterable[frozenset[int]], shared: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """What nobody else may run on: all threads of the cores that are kept."""
    return frozenset(thread for cores in kept for core in cores for thread in shared[core])


def pin(cores: Iterable[int]) -> None:
    """Move every thread of this process to the given cores; children that are started later follow."""
    wanted = set(cores)
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), wanted)
        except OSError:
            continue  # the thread has ended, or the cores are not ours any more: measuring goes on where it can
