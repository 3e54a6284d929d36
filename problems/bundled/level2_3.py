"""Linear_LogSumExp_Center: degenerate, a mean over one element is subtracted from that element.

The output is zero for every input and every weight. The problem audit must find it.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_features) -> (batch, 1)"""
        x = torch.logsumexp(self.linear(x), dim=1, keepdim=True)
        x = x - x.mean(dim=1, keepdim=True)
        return F.gelu(x)


batch = 256
in_features = 512
out_features = 512


def get_inputs():
    return [torch.rand(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
