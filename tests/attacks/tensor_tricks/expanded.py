"""Strategy: one right row, expanded: all others are the same memory.
Layer: gate, every element is compared
Severity: high, the number of rows
Verdict: wrong_value
Switch: all_elements
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x[:1]).expand_as(x)
