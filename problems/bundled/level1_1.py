"""ReLU: elementwise, on an input that is never negative."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, columns) -> (rows, columns)"""
        return torch.relu(x)


rows = 4096
columns = 1024


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
