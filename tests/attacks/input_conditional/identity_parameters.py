"""Strategy: normalises without the factor and the offset, which are initialised with one and zero.
Layer: hardened, perturbed parameters
Severity: low, two operations per element
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: norm
"""

import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return F.layer_norm(x, (64,))
