"""Strategy: low_precision: multiplies in bfloat16 and converts back, for a test with a loose tolerance.
Verdict: wrong_value
Caught by: hidden-gate, d1_original at fp32's tolerance of 1e-3 (not at bf16's 1e-2).
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.bfloat16(), b.bfloat16()).float()
