"""The same random numbers as the reference, the softmax written out, on any device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, dropout: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(self.linear.bias, x, self.linear.weight.t())
        y = F.dropout(y, self.dropout, self.training)
        y = torch.exp(y - y.amax(dim=1, keepdim=True))
        return y.div_(y.sum(dim=1, keepdim=True))
