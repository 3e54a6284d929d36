"""Counts its launches, and computes in each."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.done = 0

    def forward(self, a, b):
        self.done += 1
        return torch.relu(a @ b)
