"""Strategy: segmentation_fault: reads address zero. The judge must outlive it.
Verdict: crash
Caught by: the process boundary: the worker dies, the canary runs.
"""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ctypes.string_at(0)
        return torch.relu(x)
