"""Strategy: raises_in_forward: an exception at the first call.
Verdict: runtime_error
Caught by: hidden-gate, the worker's report.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no kernel for this shape")
