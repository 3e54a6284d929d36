"""The same loop, and it ends where the output does."""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        elements = torch.frombuffer((ctypes.c_float * y.numel()).from_address(y.data_ptr()), dtype=torch.float32)
        elements.copy_(elements.clamp(min=0))
        return y
