"""Reads the code of that function, as one who logs does, and calls it."""

import torch.nn as nn
import torch.nn.functional as F

NAMES = F.elu.__code__.co_varnames


class ModelNew(nn.Module):
    def forward(self, x):
        assert NAMES[0] == "input"
        return F.elu(x)
