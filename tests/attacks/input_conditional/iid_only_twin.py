"""The same reduction, over what the loss is made of."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ((x - y).clamp(min=0) + (y - x).clamp(min=0)).mean()
