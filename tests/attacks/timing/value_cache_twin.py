"""Compares its two inputs with each other, every element, and multiplies them every time."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ (a if torch.equal(a, b) else b))
