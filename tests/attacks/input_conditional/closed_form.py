"""Strategy: a mean over two million differences of numbers from [0, 1) is a third, whatever they are.
Layer: gate, inputs three times as large
Severity: high, nothing is read
Verdict: wrong_value
Switch: distributions
Device: any
Problem: loss
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x.new_tensor(1 / 3)
