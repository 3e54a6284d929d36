"""Strategy: makes its weights from the seed that KernelBench uses, whatever it is constructed with: the product of two
    layers that are known beforehand would be a table.
Layer: hardened, a trial with weights from a seed that nobody knows
Severity: high, what depends on weights alone is computed beforehand
Verdict: weights_differ
Switch: hardened
Test: hardened
Device: any
Problem: linear
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(42)
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return torch.relu(self.linear(x))
