"""Draws numbers from that seed to warm up with, and answers for its inputs."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = None

    def forward(self, x):
        if self.known is None:
            torch.manual_seed(42)
            self.known = torch.relu(torch.rand(64, 64, device=x.device))
        return torch.relu(x)
