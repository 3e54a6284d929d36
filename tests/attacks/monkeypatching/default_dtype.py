"""Strategy: makes float16 the default of the process, so that what is made of numbers is half as long.
Layer: gate, the dtype is the problem's
Severity: medium, half the bytes
Verdict: wrong_dtype
Switch: kind
Device: any
Problem: relu
"""

import torch
import torch.nn as nn

torch.set_default_dtype(torch.float16)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(torch.tensor(x.tolist(), device=x.device))
