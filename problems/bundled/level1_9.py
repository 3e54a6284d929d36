"""Conv2d: 3x3, padded, with bias."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_channels, height, width) -> (batch, out_channels, height, width)"""
        return self.conv(x)


batch = 16
in_channels = 16
out_channels = 32
kernel_size = 3
height, width = 32, 32


def get_inputs():
    return [torch.rand(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
