"""Matmul: two square matrices."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a: (n, n), b: (n, n) -> (n, n)"""
        return torch.matmul(a, b)


n = 512


def get_inputs():
    return [torch.rand(n, n), torch.rand(n, n)]


def get_init_inputs():
    return []
