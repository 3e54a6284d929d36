"""Linear_Dropout_Softmax: random in train mode, so both sides draw the same numbers or differ."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, dropout: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_features) -> (batch, out_features)"""
        return torch.softmax(self.dropout(self.linear(x)), dim=1)


batch = 2048
in_features = 256
out_features = 64
dropout = 0.2


def get_inputs():
    return [torch.rand(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features, dropout]
