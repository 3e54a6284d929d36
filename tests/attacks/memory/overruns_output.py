"""Strategy: writes one element more than its output has, as a kernel without its bound check does. torch's allocator
    rounds every block up to 512 bytes, so that nobody is hurt.
Layer: hardened, rubbish around what torch allocates, which is looked at afterwards
Severity: low, a wrong address; changes somebody else's number where blocks are full
Verdict: runtime_error
Switch: hardened
Test: hardened
Device: cuda
Problem: relu
"""

import torch
import torch.nn as nn


class Memory:
    """Device memory by its address."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 2}


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        torch.as_tensor(Memory(y.data_ptr(), y.numel() + 1), device=x.device).mul_(0.5).mul_(2.0).clamp_(min=0)
        return y
