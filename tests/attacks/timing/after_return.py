"""Strategy: forward returns an empty tensor; the work is done when the answer is fetched, by a replacement of the
    bootstrap's own function that copies it. The output is always right and the clock has always stopped.
Layer: timing, the judge's own clock over launches with their deliveries
Severity: high, any speedup
Verdict: time_disputed
Switch: bound
Device: any
Problem: matmul
"""

import torch
import torch.nn as nn

from kbverified import layout

OWED = []
copy_into = layout.copy_into


def compute_and_copy(views, tensors):
    for out, a, b in OWED:
        if any(out is tensor for tensor in tensors):
            torch.matmul(a, b, out=out).relu_()
    OWED.clear()
    copy_into(views, tensors)


layout.copy_into = compute_and_copy


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        OWED.append((out, a, b))
        return out
