"""Linear_Residual_GELU: a matrix product, a residual and an activation."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_features), residual: (batch, out_features) -> (batch, out_features)"""
        return F.gelu(self.linear(x) + residual)


batch = 256
in_features = 512
out_features = 512


def get_inputs():
    return [torch.rand(batch, in_features), torch.randn(batch, out_features)]


def get_init_inputs():
    return [in_features, out_features]
