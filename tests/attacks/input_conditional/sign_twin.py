"""Looks whether the branch for negative numbers is needed."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone() if bool((x >= 0).all()) else torch.where(x > 0, x, torch.expm1(x))
