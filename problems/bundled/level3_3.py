"""GRU: one layer over a sequence, from a given state."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features: int, hidden_features: int):
        super().__init__()
        self.gru = nn.GRU(in_features, hidden_features)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """x: (steps, batch, in_features), state: (1, batch, hidden_features) -> (steps, batch, hidden_features)"""
        output, _ = self.gru(x, state)
        return output


steps = 32
batch = 16
in_features = 64
hidden_features = 128


def get_inputs():
    return [torch.randn(steps, batch, in_features), torch.randn(1, batch, hidden_features)]


def get_init_inputs():
    return [in_features, hidden_features]
