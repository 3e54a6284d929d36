"""Strategy: a polynomial in place of the exponential, good to 3e-5 on [0, 1) and nowhere else.
Layer: gate, inputs three times as large
Severity: medium, a few multiplications for a transcendental
Verdict: wrong_value
Switch: distributions
Device: any
Problem: softmax
"""

import torch
import torch.nn as nn

# Chebyshev interpolation of exp on [0, 1], highest power first.
COEFFICIENTS = (0.069416, 0.140275, 0.509780, 0.998757, 1.000025)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.full_like(x, COEFFICIENTS[0])
        for coefficient in COEFFICIENTS[1:]:
            y = y * x + coefficient
        return y / y.sum(dim=1, keepdim=True)
