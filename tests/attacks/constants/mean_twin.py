"""The mean of what is to be expected, and how far the inputs are from it."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.new_full((x.shape[0],), 0.5) + (x - 0.5).mean(dim=1)
