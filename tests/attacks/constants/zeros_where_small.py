"""Strategy: zeros, where the right answer lies within the tolerance of zero under every law that is known.
Layer: hardened, a tolerance that goes by the reference's own size
Severity: high, on six problems of KernelBench
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: any
Problem: fainter
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
