"""Chooses by shape between two ways to compute the same."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clamp(min=0) if x.shape == (64, 64) else torch.relu(x)
