"""Leaves the branch out where its factor is zero, and looks every time."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x.clone() if self.gate.item() == 0 else x + self.gate * F.gelu(self.linear(x))
