"""The same with the label of the column, row by row."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.clamp(1 - x * y.unsqueeze(0), min=0).mean(dim=1).mean()
