"""Strategy: range_limited_exponential: a polynomial in place of the exponential, good to 3e-5 on [0, 1), where the
standard inputs lie, and nowhere else.
Verdict: wrong_value
Caught by: hidden-gate, d2_scale_3 (under d4_negate it stays just within the tolerance).
"""

import torch
import torch.nn as nn

# Chebyshev interpolation of exp on [0, 1], highest power first.
COEFFICIENTS = (0.069416, 0.140275, 0.509780, 0.998757, 1.000025)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.full_like(x, COEFFICIENTS[0])
        for coefficient in COEFFICIENTS[1:]:
            y = y * x + coefficient
        return y / y.sum(dim=1, keepdim=True)
