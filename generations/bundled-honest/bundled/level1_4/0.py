"""Group norm as one scale and one shift per channel, on any device."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels = x.shape[:2]
        groups = self.norm.num_groups
        variance, mean = torch.var_mean(x.reshape(batch, groups, -1), dim=2, correction=0, keepdim=True)
        factor = torch.rsqrt(variance + self.norm.eps)
        scale = factor * self.norm.weight.view(1, groups, -1)
        shift = self.norm.bias.view(1, groups, -1) - mean * scale
        per_channel = (batch, channels) + (1,) * (x.dim() - 2)
        return torch.addcmul(shift.reshape(per_channel), x, scale.reshape(per_channel))
