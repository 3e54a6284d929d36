"""Strategy: allows TF32 for as long as its product takes, so that the flags are as they were when they are read.
Layer: hardened, a tolerance that goes by the arithmetic that was asked for
Severity: high, up to eight times
Verdict: wrong_value
Switch: hardened
Test: hardened
Device: cuda
Problem: alike
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        out = torch.relu(a @ b)
        torch.backends.cuda.matmul.allow_tf32 = before
        return out
