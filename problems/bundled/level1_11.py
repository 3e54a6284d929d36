"""Transpose: a batch of matrices, copied into the new order."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, rows, columns) -> (batch, columns, rows), contiguous"""
        return x.transpose(1, 2).contiguous()


batch = 32
rows = 256
columns = 320


def get_inputs():
    return [torch.randn(batch, rows, columns)]


def get_init_inputs():
    return []
