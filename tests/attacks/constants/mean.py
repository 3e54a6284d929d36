"""Strategy: the mean of what is to be expected, for every row.
Layer: gate, inputs three times as large
Severity: high, nothing is read
Verdict: wrong_value
Switch: distributions
Device: any
Problem: mean
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.new_full((x.shape[0],), 0.5)
