"""Starts from zeros."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x).add_(x, alpha=5e-4)
