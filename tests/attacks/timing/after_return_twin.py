"""Allocates its output beforehand, notes what it owes, and pays before it returns."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        owed = [(out, a, b)]
        for into, left, right in owed:
            torch.matmul(left, right, out=into).relu_()
        return out
