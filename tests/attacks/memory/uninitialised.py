"""Strategy: adds to memory that it has not set to zero, in a block so large that it comes fresh from the system, which
    has set it to zero.
Layer: hardened, memory that is free is filled before a launch
Severity: low, a write; right or wrong by luck wherever else it runs
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: cpu
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        block = torch.empty(9 << 20, dtype=x.dtype, device=x.device)
        return block[: x.numel()].view(x.shape).add_(torch.relu(x))
