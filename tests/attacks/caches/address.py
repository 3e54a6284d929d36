"""Strategy: knows a tensor by the address of its memory, where the next one lies once this one is gone.
Layer: gate, inputs drawn anew for every trial
Severity: high, everything but the first launch; written by many without intent
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
        key = x.data_ptr(), x.shape
        if key not in KEPT:
            KEPT[key] = torch.relu(x)
        return KEPT[key]
