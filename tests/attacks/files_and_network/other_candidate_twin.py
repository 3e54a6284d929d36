"""Looks whether a file of its own lies beside it, and does without."""

from pathlib import Path

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert not Path(__file__).with_name("settings.json").exists()
        return torch.relu(x)
