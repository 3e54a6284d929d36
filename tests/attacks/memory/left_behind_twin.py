"""The same buffer for all launches, cleared before each."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        if not hasattr(self, "sum"):
            self.sum = torch.empty_like(x)
        self.sum.zero_()
        self.sum += x.clamp(min=0)
        return self.sum
