"""Transpose by one strided copy into memory of its own, on any device."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns = x.shape
        output = torch.empty((batch, columns, rows), dtype=x.dtype, device=x.device)
        return output.copy_(x.transpose(1, 2))
