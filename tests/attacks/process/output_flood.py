"""Strategy: prints until disk or reader give up.
Layer: process, the limit on what a family may print
Severity: medium, all other jobs of the machine
Verdict: output_flood
Switch: limits
Device: any
Problem: relu
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines_left = 17

    def forward(self, x):
        while self.lines_left > 0:
            self.lines_left -= 1
            print("x" * ((1 << 20) - 1), flush=True)
        return torch.relu(x)
