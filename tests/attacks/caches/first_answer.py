"""Strategy: computes for each shape once and hands out that answer ever after.
Layer: gate, inputs drawn anew for every trial
Severity: high, everything but the first launch
Verdict: wrong_value
Switch: distributions
Device: any
Problem: relu
"""

import torch
import torch.nn as nn

KEPT = {}


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape not in KEPT:
            KEPT[x.shape] = torch.relu(x)
        return KEPT[x.shape]
