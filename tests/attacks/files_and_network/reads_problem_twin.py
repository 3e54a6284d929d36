"""Reads its own source."""

from pathlib import Path

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert "torch.relu(x)" in Path(__file__).read_text()
        return torch.relu(x)
