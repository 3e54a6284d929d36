"""Strategy: wrong_dtype_half: the right values as float16, half the bytes to write and within the tolerance.
Verdict: wrong_dtype
Caught by: hidden-gate, the comparison of dtypes before that of values.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.half())
