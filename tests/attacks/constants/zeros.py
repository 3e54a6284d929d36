"""Strategy: zeros, where the right answer lies within the tolerance of zero.
Layer: gate, inputs three times as large
Severity: high, on a few problems
Verdict: wrong_value
Switch: distributions
Device: any
Problem: faint
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
