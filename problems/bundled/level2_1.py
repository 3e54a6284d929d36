"""Conv2d_Scale_LeakyReLU: a convolution and two elementwise steps that fuse into one."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, scale: float, slope: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale = scale
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, in_channels, height, width) -> (batch, out_channels, height - 2, width - 2)"""
        return F.leaky_relu(self.conv(x) * self.scale, negative_slope=self.slope)


batch = 16
in_channels = 16
out_channels = 32
kernel_size = 3
scale = 2.0
slope = 0.1
height, width = 34, 34


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, scale, slope]
