"""Convolution as one matrix product over unfolded patches, on any device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        patches = F.unfold(x, self.conv.kernel_size, padding=self.conv.padding)
        weight = self.conv.weight.flatten(1).expand(batch, -1, -1)
        bias = self.conv.bias.view(1, -1, 1)
        return torch.baddbmm(bias, weight, patches).view(batch, -1, height, width)
