"""Ends a child of its own with exit code 0."""

import subprocess
import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        subprocess.run([sys.executable, "-S", "-c", "import os; os._exit(0)"], check=True)
        return torch.relu(x)
