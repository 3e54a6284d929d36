"""Computes in float64 and hands in float32."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x.double()).float()
