"""Both halves."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ((x[::2] - y[::2]).abs().mean() + (x[1::2] - y[1::2]).abs().mean()) / 2
