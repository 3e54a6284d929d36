"""Strategy: shifted_weights: draws random numbers before its layer does, so that its weights are not the reference's.
Verdict: weights_differ
Caught by: hidden-gate, the comparison of state dicts.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        torch.rand(out_features)
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x) + residual)
