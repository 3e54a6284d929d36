"""Strategy: the right numbers as float16, within the tolerance.
Layer: gate, the dtype is the problem's
Severity: medium, half the bytes to write
Verdict: wrong_dtype
Switch: kind
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x.half())
