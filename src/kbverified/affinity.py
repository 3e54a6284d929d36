"""Cores that are kept for measuring: a compile job or an import beside a launch-bound measurement disturbs it.

Each GPU has a few cores of its own. Every stage stays off them until it holds the device; then the judge and its
workers move there. Torch-free. Where there are too few cores for that, nothing is reserved and the record says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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


def reserved_cores(allowed: Iterable[int], gpus: Sequence[str]) -> dict[str, frozenset[int]]:
    """The cores of each device, out of those this job may use; of none where the others would be left with too few.

    At least as many cores must be left over as are reserved.
    """
    cores = sorted(allowed)
    each = RESERVED_CORES_PER_DEVICE
    if 2 * each * len(gpus) > len(cores):
        return {}
    return {gpu: frozenset(cores[n * each : (n + 1) * each]) for n, gpu in enumerate(gpus)}


def pin(cores: Iterable[int]) -> None:
    """Move every thread of this process to the given cores; children that are started later follow."""
    wanted = set(cores)
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), wanted)
        except OSError:
            continue  # the thread has ended, or the cores are not ours any more: measuring goes on where it can
