"""Fills its output with NaN and then writes over all of it."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan")).copy_(torch.relu(x))
