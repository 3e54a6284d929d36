"""Has the collector tell it how much there is, as one does who looks for a leak."""

import gc

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert len(gc.get_objects()) > 0
        return torch.relu(x)
