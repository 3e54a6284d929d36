"""The library's product (cuBLAS): the same kernel as the reference's, so its matched speedup is about 1."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)
