"""ConvNet: two blocks of convolution, batch norm (in train mode), ReLU and pooling, then a linear layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.classify = nn.Linear(2 * channels * 8 * 8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, 3, 32, 32) -> (batch, classes)"""
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.classify(torch.flatten(x, 1))


batch = 16
channels = 16
classes = 10


def get_inputs():
    return [torch.rand(batch, 3, 32, 32)]


def get_init_inputs():
    return [channels, classes]
