"""Writes all rows into the same memory again."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        if self.out is None:
            self.out = torch.empty_like(x)
        self.out[:8] = torch.relu(x[:8])
        self.out[8:] = torch.relu(x[8:])
        return self.out
