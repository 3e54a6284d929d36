"""Allows TF32 while it computes, and leaves the flags as it has found them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return torch.relu(x)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
