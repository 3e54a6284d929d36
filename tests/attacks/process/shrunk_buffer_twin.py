"""Cuts a file of its own short."""

import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        fd = os.memfd_create("mine")
        os.ftruncate(fd, 4096)
        os.ftruncate(fd, 0)
        os.close(fd)
        return torch.relu(x)
