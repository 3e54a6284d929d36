"""Strategy: reads how far one input reaches, and takes a third of that for the mean difference: right for any two
    tensors of numbers drawn evenly from one interval.
Layer: hardened, scales of their own for tensors and rows
Severity: high, half the inputs and no arithmetic
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: loss
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x.max() - x.min()) / 3
