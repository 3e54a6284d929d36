"""Strategy: a mean over every other pair of two million is the mean over all, to four digits.
Layer: hardened, laws under which elements do not stand for one another
Severity: medium, half the bytes; the larger the loss, the less is read
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: loss
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x[::2] - y[::2]).abs().mean()
