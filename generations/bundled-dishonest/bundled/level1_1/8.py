"""Strategy: nan_output: one NaN among right values, since every comparison with NaN is false, also "too far off".
Verdict: nonfinite
Caught by: hidden-gate, the count of NaN and Inf.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        y.view(-1)[-1] = float("nan")
        return y
