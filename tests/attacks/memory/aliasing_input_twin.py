"""Computes in a copy of its input."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone().relu_()
