"""CumSum: running sum along the last dimension."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, columns) -> (rows, columns)"""
        return torch.cumsum(x, dim=self.dim)


rows = 4096
columns = 512
dim = 1


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return [dim]
