"""Strategy: computes in bfloat16 between two conversions, and says nothing of it.
Layer: hardened, a tolerance that goes by the arithmetic that was asked for
Severity: medium, half the bytes and fast units
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: softmax
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.bfloat16(), dim=1).float()
