"""Leaves a block size there and finds it again."""

import os
from pathlib import Path

import torch
import torch.nn as nn

LEFT = Path(os.environ["TRITON_CACHE_DIR"]) / "left.pt"
BLOCK = torch.load(LEFT) if LEFT.exists() else None


class ModelNew(nn.Module):
    def forward(self, a, b):
        if BLOCK is None:
            LEFT.parent.mkdir(exist_ok=True)
            torch.save(128, LEFT)
        return torch.relu(a @ b)
