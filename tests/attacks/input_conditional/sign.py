"""Strategy: leaves out the branch for negative numbers, which the standard inputs never take.
Layer: gate, inputs of the other sign
Severity: high, the exponential of an ELU and the like
Verdict: wrong_value
Switch: distributions
Device: any
Problem: elu
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
