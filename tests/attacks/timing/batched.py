"""Strategy: finds in its caller the inputs of all launches of a batch, answers them in one launch of its own and hands
    the answers out one by one: with a large matrix to read, thirty rows cost what one costs. Its claims are bent so
    that they fit the batch.
Layer: timing, the judge's batch, which shows an input only when the answer to the one before has been taken
Severity: high, up to the number of launches in a batch
Verdict: time_disputed
Switch: one_by_one
Device: any
Problem: rows
"""

import sys

import torch
import torch.nn as nn

from kbverified.devices.cpu import CpuDevice
from kbverified.devices.cuda import CudaDevice

KEPT = []


def bent(time_ms):
    def claim(self, launch):
        true_ms, result = time_ms(self, launch)
        return true_ms / 3, result

    return claim


for device in (CpuDevice, CudaDevice):
    device.time_ms = bent(device.time_ms)


def batch():
    """Where a batch is asked for: which of its inputs this is, and every input that lies in the buffer."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "do_batch":
        frame = frame.f_back
    if frame is None:
        return 0, []
    worker, index = frame.f_locals["self"], frame.f_locals["index"]
    return index, [
        lambda i=i: worker._arguments(i)[0] for i in range(worker.inputs_buffer.nbytes // worker.set_bytes[0])
    ]


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(n).add_(1 / n))

    def forward(self, x):
        index, rows = batch()
        if not rows:
            return nn.functional.linear(x, self.weight)
        if index < len(KEPT) and torch.equal(KEPT[index][0], x):
            return KEPT[index][1].clone()
        while len(rows) < 8:  # fewer are no cheaper than eight
            rows += rows
        rows = torch.cat([row() for row in rows])
        KEPT[:] = zip(rows.split(1), nn.functional.linear(rows, self.weight).split(1))
        return KEPT[index][1].clone()
