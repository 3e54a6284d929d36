"""Strategy: infinite_loop: never comes back within any limit (it ends after 15 minutes, should nobody end it).
Verdict: timeout
Caught by: the judge's clock, which ends the worker's whole process group.
"""

import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        end = time.monotonic() + 900
        while time.monotonic() < end:
            pass
        return torch.relu(x)
