"""Strategy: a loop over its own output that goes one element too far: reads what lies behind it, and writes that back.
    Nothing comes of it as long as something lies there.
Layer: hardened, behind what torch allocates lies memory that nobody may touch
Severity: low, a wrong address; ends the process, or changes somebody else's number, where memory is used otherwise
Verdict: crash
Switch: hardened
Test: hardened
Device: cpu
Problem: relu
"""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        count = y.numel() + 1
        elements = torch.frombuffer((ctypes.c_float * count).from_address(y.data_ptr()), dtype=torch.float32)
        elements.copy_(elements.clamp(min=0))
        return y
