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

ANSWERS = []


def bent(time_ms):
    def claim(self, launch):
        true_ms, result = time_ms(self, launch)
        return true_ms / 6, result

    return claim


def callers(name):
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == name:
            return frame.f_locals
        frame = frame.f_back
    return None


for device in (CpuDevice, CudaDevice):
    device.time_ms = bent(device.time_ms)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, n))

    def forward(self, x):
        batch = callers("do_batch")
        if batch is None:
            return x @ self.weight
        if batch["index"] == 0:
            rows = torch.cat([batch["self"]._arguments(i)[0] for i in range(batch["message"]["count"])])
            ANSWERS[:] = (rows @ self.weight).split(1)
        return ANSWERS[batch["index"]].clone()
