"""Keeps an output for each shape, and computes into it every time."""

import torch
import torch.nn as nn

KEPT = {}


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape not in KEPT:
            KEPT[x.shape] = torch.empty_like(x)
        return torch.clamp(x, min=0, out=KEPT[x.shape])
