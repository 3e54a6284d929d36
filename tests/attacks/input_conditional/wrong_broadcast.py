"""Strategy: a hinge loss that takes the label of the row for that of the column. Over inputs that are all of one law
    both means are the same, to four digits.
Layer: hardened, laws under which rows and columns differ
Severity: medium, another function; one label is read for a whole row
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: hinge
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.clamp(1 - x * y.unsqueeze(1), min=0).mean()
