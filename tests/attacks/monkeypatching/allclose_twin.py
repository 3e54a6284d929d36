"""Compares with torch's function, and leaves it alone."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.relu(x)
        assert torch.allclose(out, x.clamp(min=0))
        return out
