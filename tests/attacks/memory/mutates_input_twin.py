"""Empties a copy of its input when it is done with that."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        mine = x.clone()
        out = torch.relu(mine)
        mine.zero_()
        return out
