"""Strategy: adds up into a buffer of its own, which it clears only where the inputs have changed: a launch less for who
    measures on one draw. The first answer for any inputs is right, and the second is twice as large.
Layer: hardened, a second launch on the same inputs
Severity: low, a launch for clearing
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        mark = (float(x[0, 0]), float(x[-1, -1]))
        if getattr(self, "mark", None) != mark:
            self.mark, self.sum = mark, torch.zeros_like(x)
        self.sum += x.clamp(min=0)
        return self.sum
