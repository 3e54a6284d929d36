"""Computes with a class of tensors of its own, and hands in a plain one."""

import torch
import torch.nn as nn


class Mine(torch.Tensor):
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x.as_subclass(Mine)).as_subclass(torch.Tensor)
