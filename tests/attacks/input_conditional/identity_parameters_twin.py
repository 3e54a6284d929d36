"""Normalises, then multiplies and adds."""

import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return F.layer_norm(x, (64,)) * self.norm.weight + self.norm.bias
