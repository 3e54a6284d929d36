"""Cores that are kept for measuring: a compile job or an import beside a launch-bound measurement disturbs it.

Each GPU has a few cores of its own. Every stage stays off them until it holds the device; then the judge and its
workers move there. Torch-free. Where there are too few cores for that, nothing is reserved and the record says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kbverified.protocol import RESERVED_CORES_PER_DEVICE


def reserved_cores(allowed: Iterable[int], device_index: int, device_count: int) -> frozenset[int] | None:
    """The cores of one device, out of those this job may use; None where the others would be left with too few.

    At least as many cores must be left over as are reserved.
    """
    cores = sorted(allowed)
    if 2 * RESERVED_CORES_PER_DEVICE * device_count > len(cores):
        return None
    first = device_index * RESERVED_CORES_PER_DEVICE
    return frozenset(cores[first : first + RESERVED_CORES_PER_DEVICE])


def common_cores(allowed: Iterable[int], device_count: int) -> frozenset[int]:
    """The cores that are kept for no device."""
    cores = sorted(allowed)
    if 2 * RESERVED_CORES_PER_DEVICE * device_count > len(cores):
        return frozenset(cores)
    return frozenset(cores[device_count * RESERVED_CORES_PER_DEVICE :])


def pin(cores: Iterable[int]) -> None:
    """Move every thread of this process to the given cores; children that are started later follow."""
    wanted = set(cores)
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), wanted)
        except OSError:
            continue  # the thread has ended, or the cores are not ours any more: measuring goes on where it can
