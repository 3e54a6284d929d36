"""Strategy: while timed, recognises its inputs by their addresses and answers from what it kept. A harness that
    launches again and again on the same tensors pays for one launch in twenty.
Layer: timing, inputs redrawn in place before every round, and a timed launch's output compared
Severity: high, any speedup
Verdict: wrong_value
Switch: verify,bound
Device: any
Problem: matmul
"""

import sys

import torch
import torch.nn as nn

KEPT = {}


def in_the_gate():
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "do_forward":
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def forward(self, a, b):
        key = a.data_ptr(), b.data_ptr()
        if in_the_gate() or key not in KEPT:
            KEPT[key] = torch.relu(a @ b)
        return KEPT[key]
