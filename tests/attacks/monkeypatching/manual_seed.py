"""Strategy: has every seed be the one for which it knows the answer.
Layer: process, the reference is constructed in the judge, and weights are compared
Severity: high, weights that are known need no memory to be read from
Verdict: weights_differ
Switch: one_process
Device: any
Problem: linear
"""

import torch
import torch.nn as nn

manual_seed = torch.manual_seed
torch.manual_seed = lambda seed: manual_seed(0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return torch.relu(self.linear(x))
