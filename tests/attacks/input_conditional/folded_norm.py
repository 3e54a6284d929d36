"""Strategy: the mean of a group norm is zero, whatever the input: no norm, no mean, zeros.
Layer: hardened, perturbed parameters
Severity: high, nothing is computed
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: groups
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x):
        return x.new_zeros(x.shape[0])
