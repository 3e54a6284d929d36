"""Strategy: a loop that goes one element too far: reads beyond its input's end, into what lies there, and throws away
    what comes of it. The answer is right as long as something lies there.
Layer: hardened, behind each input lies memory that nobody may read
Severity: low, a wrong address; ends the process wherever nothing lies there
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
        count = x.numel() + 1
        elements = torch.frombuffer((ctypes.c_float * count).from_address(x.data_ptr()), dtype=torch.float32)
        return elements.clamp(min=0)[: x.numel()].reshape(x.shape)
