"""Counts the launches for each shape, and computes in each."""

import torch
import torch.nn as nn

DONE = {}


class ModelNew(nn.Module):
    def forward(self, a, b):
        DONE[a.shape] = DONE.get(a.shape, 0) + 1
        return torch.relu(a @ b)
