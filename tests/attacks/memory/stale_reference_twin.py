"""Looks at what lies in its output's memory, and writes over all of it."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        out.sum()
        return torch.clamp(x, min=0, out=out)
