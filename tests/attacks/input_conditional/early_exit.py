"""Strategy: leaves a scan after 64 columns where the sum so far is small, as if the rest were nothing. The sum of 64
    standard inputs never is.
Layer: gate, inputs a hundredth as large, and of the other sign
Severity: high where it takes the exit
Verdict: wrong_value
Switch: distributions
Device: any
Problem: scan
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        head = torch.cumsum(x[:, :64], dim=1)
        if head[:, -1].max() < 1.0:
            return torch.cat([head, head[:, -1:].expand(-1, x.shape[1] - 64)], dim=1)
        return torch.cumsum(x, dim=1)
