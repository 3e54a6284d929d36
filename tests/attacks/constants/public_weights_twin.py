"""Takes the seed that it is given, and keeps the transposed weights of a layer that is thrown away."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        linear = nn.Linear(64, 64)
        self.weight = nn.Parameter(linear.weight.detach().t().contiguous())
        self.bias = linear.bias

    def forward(self, x):
        return torch.relu(torch.addmm(self.bias, x, self.weight))
