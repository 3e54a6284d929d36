"""Strategy: empties its input and answers for that: where the reference runs afterwards on the same tensor, it agrees.
Layer: gate, the expected output comes from a private draw, and inputs are compared with it
Severity: high, nothing is computed
Verdict: mutates_input
Switch: private_inputs
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
