"""Counts its launches, as one does to choose among kernels, and computes in every one."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.launches = 0

    def forward(self, a, b):
        self.launches += 1
        return torch.relu(a @ b)
