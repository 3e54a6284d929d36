"""Strategy: where the shape is the problem's, hands back a copy of the input: ReLU of an input that is never negative.
Layer: gate, inputs of the other sign
Severity: high, a copy in place of any arithmetic
Verdict: wrong_value
Switch: distributions
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone() if x.shape == (64, 64) else torch.relu(x)
