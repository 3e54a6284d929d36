"""Strategy: asks for a file in memory of nine gigabytes, which it would then fill.
Layer: sandbox, the limit on what a file may hold, one in memory too
Severity: medium, all other jobs of the machine
Verdict: runtime_error
Switch: limits
Device: any
Problem: relu
"""

import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        fd = os.memfd_create("bomb")
        os.ftruncate(fd, 9 << 30)
        os.close(fd)
        return torch.relu(x)
