"""Strategy: hands in a parameter, which it keeps and whose gradient it asks for: whatever compares with it pays for
    that, and what is kept can change.
Layer: gate, exactly torch.Tensor
Severity: low, a nuisance to the harness
Verdict: wrong_type
Switch: kind
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        self.kept = nn.Parameter(torch.relu(x), requires_grad=True)
        return self.kept
