"""Calls libc, and traces nobody."""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert ctypes.CDLL(None).getpid() > 0
        return torch.relu(x)
