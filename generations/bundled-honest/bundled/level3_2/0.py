"""Pool first, ReLU afterwards: the same numbers from a quarter of the elements, on any device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.classify = nn.Linear(2 * channels * 8 * 8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.norm1(self.conv1(x)), 2).relu_()
        x = F.max_pool2d(self.norm2(self.conv2(x)), 2).relu_()
        return self.classify(torch.flatten(x, 1))
