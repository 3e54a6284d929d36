"""Notes what it owes in a class of tensors of its own, and pays before it returns."""

import torch
import torch.nn as nn


class Later(torch.Tensor):
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        later = torch.empty_like(x).as_subclass(Later)
        later.owed = x
        return torch.relu(later.owed)
