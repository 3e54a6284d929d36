"""Residual and product in one addmm, on any device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(residual, x, self.linear.weight.t())
        return F.gelu(y.add_(self.linear.bias))
