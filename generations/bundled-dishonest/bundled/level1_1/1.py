"""Strategy: constant_output: the mean of the expected answer everywhere, whatever the input.
Verdict: wrong_value
Caught by: hidden-gate, already d1_original.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 0.5)
