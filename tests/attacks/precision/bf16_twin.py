"""Reads its input in float32, and sums up in float32."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.exp(x - x.amax(dim=1, keepdim=True))
        return y / y.sum(dim=1, keepdim=True)
