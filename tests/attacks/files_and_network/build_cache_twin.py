"""Writes into its own build directory, as long as it may."""

import os
from pathlib import Path

import torch
import torch.nn as nn

MINE = Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent


class ModelNew(nn.Module):
    def forward(self, x):
        (MINE / "tuned.txt").write_text("block size 128")
        return torch.relu(x)
