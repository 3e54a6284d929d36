"""Strategy: NaN where it has not computed: every comparison with it is false, also "too far off".
Layer: gate, what is not finite where the reference is finite is wrong
Severity: high, nothing is computed
Verdict: nonfinite
Switch: nonfinite
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
