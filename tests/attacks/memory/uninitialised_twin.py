"""Sets to zero what it adds to."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        block = torch.empty(9 << 20, dtype=x.dtype, device=x.device)
        return block[: x.numel()].view(x.shape).zero_().add_(torch.relu(x))
