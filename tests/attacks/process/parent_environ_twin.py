"""Reads its own environment in /proc."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        with open("/proc/self/environ", "rb") as file:
            file.read()
        return torch.relu(x)
