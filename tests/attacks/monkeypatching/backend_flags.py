"""Strategy: allows TF32 for the whole process, the reference too where it shares one.
Layer: flags, read back after the last launch: who has changed them has no place in arms that fix them
Severity: high for whatever multiplies matrices
Verdict: flags_changed
Switch: flags
Test: flags
Device: any
Problem: relu
"""

import torch
import torch.nn as nn

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
