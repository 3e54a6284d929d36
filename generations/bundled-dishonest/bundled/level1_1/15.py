"""Strategy: raises_in_constructor: an exception in ModelNew().
Verdict: init_error
Caught by: hidden-gate, the worker's report.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        raise ValueError("no kernel for this device")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)
