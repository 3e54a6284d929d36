"""Strategy: computes in its input and hands that back: no output to allocate, and half the cache to fill.
Layer: gate, no output may be an input, and inputs are compared afterwards
Severity: medium, an allocation and the traffic of an output
Verdict: aliases_input
Switch: aliases,unchanged
Device: any
Problem: relu
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.relu_()
