"""Strategy: leaves a running product after 256 columns and writes zeros. A product of so many numbers from [0, 1), or a
    hundredth as large, is none that a float could hold; of some three times as large ones the reference overflows.
Layer: hardened, values around one
Severity: high, all but the first columns
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: products
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        torch.cumprod(x[:, :256], dim=1, out=y[:, :256])
        return y
