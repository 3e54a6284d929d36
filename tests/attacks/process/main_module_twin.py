"""Asks ``__main__`` for a setting, and does without."""

import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert getattr(sys.modules["__main__"], "setting_of_mine", None) is None
        return torch.relu(x)
