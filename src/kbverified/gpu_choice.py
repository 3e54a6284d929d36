"""Which of several GPUs a job is going to hold, decided before it is free. Torch-free.

The CUDA driver reads CUDA_VISIBLE_DEVICES once, when it is first asked anything. Whoever knows its GPU starts the
driver while the GPU is somebody else's; who learns it with the lease does so with the device held, which took 0.2 s of
each gate on two H200 (docs/runs/2026-11-30-h200-sixth.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kbverified import lease


@contextlib.contextmanager
def chosen(kind: str, same_for: str | None = None) -> Iterator[int | None]:
    """The place among the visible GPUs that this job is to lease; None for a CPU, and where no GPU is visible.

    All who name the same ``same_for`` get the same one: times that are to be divided by each other across jobs have to
    come from one GPU. Who names nothing gets the one that the fewest have chosen. Until it ends this choice counts.
    """
    gpus = [] if kind == "cpu" else lease.visible_gpus()
    if len(gpus) < 2:
        yield 0 if gpus else None
        return
    places = range(len(gpus)) if same_for is None else [lease.chosen_place(same_for, len(gpus))]
    place, slot = _take_slot({place: gpus[place].uuid for place in places})
    try:
        yield place
    finally:
        os.close(slot)


def _take_slot(uuids: dict[int, str]) -> tuple[int, int]:
    """A slot of that of these GPUs, by their places, of which the fewest are taken, of two alike the first's; (place,
    the descriptor that holds it).

    A slot is a lock, so that the kernel forgets the choice of a job that dies.
    """
    folder = lease.made_directory()
    turn = lease.wait_for_lock(folder / "choosing.lock")  # who counts holds every free slot for a moment
    try:
        counted = [(*_count(folder, uuid), place) for place, uuid in uuids.items()]
        _, slot, place = min(counted, key=lambda one: one[0])
        for _, other, _ in counted:
            if other != slot:
                os.close(other)
        return place, slot
    finally:
        os.close(turn)


def _count(folder: Path, uuid: str) -> tuple[int, int]:
    """How many slots of a GPU are taken, and the descriptor of its first free one."""
    taken, free, number = 0, None, 0
    while free is None or _slot(folder, uuid, number).exists():
        held = lease.try_lock(_slot(folder, uuid, number))
        if held is None:
            taken += 1
        elif free is None:
            free = held
        else:
            os.close(held)
        number += 1
    return taken, free


def _slot(folder: Path, uuid: str, number: int) -> Path:
    return folder / f"chosen-{uuid}-{number}.lock"
