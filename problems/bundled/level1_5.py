"""MaskedSum: reduction over the last dimension of what a boolean mask selects."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """x: (rows, columns), mask: (rows, columns), bool -> (rows,)"""
        return torch.sum(torch.where(mask, x, torch.zeros_like(x)), dim=self.dim)


rows = 2048
columns = 512
dim = 1


def get_inputs():
    return [torch.randn(rows, columns), torch.rand(rows, columns) < 0.5]


def get_init_inputs():
    return [dim]
