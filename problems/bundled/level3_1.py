"""MLP: three linear layers with ReLU between them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features: int, hidden_features: int, out_features: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_features, hidden_features),
            nn.ReLU(),
            nn.Linear(hidden_features, hidden_features),
            nn.ReLU(),
            nn.Linear(hidden_features, out_features),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_features) -> (batch, out_features)"""
        return self.layers(x)


batch = 256
in_features = 256
hidden_features = 512
out_features = 128


def get_inputs():
    return [torch.rand(batch, in_features)]


def get_init_inputs():
    return [in_features, hidden_features, out_features]
