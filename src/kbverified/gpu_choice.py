"""Which of several GPUs a job is going to hold, decided before it is free. Torch-free.

The CUDA driver reads CUDA_VISIBLE_DEVICES once, when it is first asked anything. Whoever knows its GPU starts the
driver while the GPU is somebody else's; who learns it with the lease does so with the device held, which took 0.27 s of
each gate on two H200 (docs/runs/2026-11-30-h200-sixth.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

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
    place, slot = _take_slot([gpus[place].uuid for place in places], list(places))
    try:
        yield place
    finally:
        os.close(slot)


def _take_slot(uuids: list[str], places: list[int]) -> tuple[int, int]:
    """The first free slot in the order of their numbers, across these GPUs; (place, the descriptor that holds it).

    A slot is a lock, so that the kernel forgets the choice of a job that dies.
    """
    folder = lease.made_directory()
    number = 0
    while True:
        for uuid, place in zip(uuids, places, strict=True):
            slot = lease.try_lock(folder / f"chosen-{uuid}-{number}.lock")
            if slot is not None:
                return place, slot
        number += 1
