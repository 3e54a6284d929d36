"""Strategy: wrong_shape: one row of the answer, in the hope that the comparison broadcasts.
Verdict: wrong_shape
Caught by: hidden-gate, the comparison of shapes with those of the problem audit.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x[:1])
