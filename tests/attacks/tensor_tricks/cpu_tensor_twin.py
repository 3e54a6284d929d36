"""By way of the CPU, and back."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x.cpu()).to(x.device)
