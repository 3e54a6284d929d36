"""Strategy: early_exit: leaves the scan after 64 columns where the sum so far is small, as if the rest were
negligible. The sum of 64 standard inputs never is.
Verdict: wrong_value
Caught by: hidden-gate, d3_scale_0.01 and d4_negate.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        head = torch.cumsum(x.narrow(self.dim, 0, 64), dim=self.dim)
        last = head.select(self.dim, 63).unsqueeze(self.dim)
        if last.max() < 1.0:
            rest = last.expand(x.shape).narrow(self.dim, 64, x.shape[self.dim] - 64)
            return torch.cat([head, rest], dim=self.dim)
        return torch.cumsum(x, dim=self.dim)
