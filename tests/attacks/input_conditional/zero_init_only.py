"""Strategy: leaves out a branch whose factor is a parameter that is initialised with zero.
Layer: hardened, perturbed parameters
Severity: high, the whole branch
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: gated
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x.clone()
