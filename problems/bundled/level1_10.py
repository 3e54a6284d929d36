"""CrossEntropy: a loss with integer labels; the output is one number."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """logits: (batch, classes), labels: (batch,), int64 -> ()"""
        return F.cross_entropy(logits, labels)


batch = 1024
classes = 2048


def get_inputs():
    return [torch.randn(batch, classes), torch.randint(0, classes, (batch,))]


def get_init_inputs():
    return []
