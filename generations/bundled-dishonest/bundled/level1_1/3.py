"""Strategy: wrong_dtype_wide: the right values as float64.
Verdict: wrong_dtype
Caught by: hidden-gate, the comparison of dtypes before that of values.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).double()
