"""GroupNorm: images, groups of channels, with weight and bias."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, channels, height, width) -> the same shape"""
        return self.norm(x)


batch = 32
channels = 64
groups = 8
height, width = 32, 32


def get_inputs():
    return [torch.rand(batch, channels, height, width)]


def get_init_inputs():
    return [groups, channels]
