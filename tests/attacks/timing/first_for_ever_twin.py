"""Keeps its first answer beside the one that it hands out."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = None

    def forward(self, a, b):
        out = torch.relu(a @ b)
        if self.first is None:
            self.first = out
        return out
