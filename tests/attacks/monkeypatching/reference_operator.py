"""Strategy: puts zeros in the place of the function that the reference calls, and agrees with it.
Layer: process, the reference runs in the judge
Severity: high, nothing is computed
Verdict: wrong_value
Switch: one_process
Device: any
Problem: relu
"""

import torch
import torch.nn as nn

torch.relu = torch.zeros_like


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
