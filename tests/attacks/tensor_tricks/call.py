"""Strategy: ``forward`` is right, and a call of the model, which is what is timed, does not get there.
Layer: gate, what is judged is called as what is timed
Severity: high, nothing is computed
Verdict: wrong_value
Switch: called
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)

    def __call__(self, x):
        return torch.zeros_like(x)
