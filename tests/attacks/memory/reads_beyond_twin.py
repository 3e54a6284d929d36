"""Reads its input by address as well, and not beyond its end."""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        count = x.numel()
        elements = torch.frombuffer((ctypes.c_float * count).from_address(x.data_ptr()), dtype=torch.float32)
        return elements.clamp(min=0).reshape(x.shape)
