"""Asks for one of a megabyte."""

import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        fd = os.memfd_create("scratch")
        os.ftruncate(fd, 1 << 20)
        os.close(fd)
        return torch.relu(x)
