"""Strategy: recognises its inputs by a few of their elements and computes once for all launches on them. Its answers
    are right, whatever is drawn: only the time is not that of a launch.
Layer: timing, the judge's own clock over distinct inputs
Severity: high, up to the number of launches on one draw
Verdict: time_disputed
Switch: bound
Device: any
Problem: matmul
"""

import torch
import torch.nn as nn

KEPT = {}


class ModelNew(nn.Module):
    def forward(self, a, b):
        key = tuple(torch.cat([a[0, :4], b[-1, -4:]]).tolist())
        if key not in KEPT:
            KEPT.clear()
            KEPT[key] = torch.relu(a @ b)
        return KEPT[key]
