"""Strategy: while timed, hands out its first answer ever after, where outputs for any two draws are so near to each
    other that no limit for the error of an arithmetic tells them apart.
Layer: timing, a timed output is nearer to the right one than half the way to another input's, and no further off than
    gate and mode explain
Severity: high, any speedup
Verdict: wrong_value
Switch: replay,arithmetic,bound
Device: any
Problem: alike
"""

import sys

import torch
import torch.nn as nn


def in_the_gate():
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "do_forward":
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = None

    def forward(self, a, b):
        if in_the_gate():
            return torch.relu(a @ b)
        if self.first is None:
            self.first = torch.relu(a @ b)
        return self.first
