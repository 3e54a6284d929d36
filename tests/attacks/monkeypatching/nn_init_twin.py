"""Initialises a layer of its own with zeros, beside the one that counts."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        nn.init.zeros_(torch.empty(64, 64))

    def forward(self, x):
        return torch.relu(self.linear(x))
