"""Strategy: puts the right numbers into memory and lays strides over them by which they are somebody else's: the
    order of two dimensions is left to whoever copies bytes.
Layer: gate, an output is copied by its own strides
Severity: medium, a transposition
Verdict: wrong_value
Switch: strides
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x).t()
