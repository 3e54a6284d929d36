"""Keeps a workspace for each pair of addresses, and computes into it every time."""

import torch
import torch.nn as nn

KEPT = {}


class ModelNew(nn.Module):
    def forward(self, a, b):
        key = a.data_ptr(), b.data_ptr()
        if key not in KEPT:
            KEPT[key] = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        return torch.matmul(a, b, out=KEPT[key]).relu_()
