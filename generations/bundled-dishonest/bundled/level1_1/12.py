"""Strategy: output_flood: 100 MB of prints, then the right answer.
Verdict: output_flood
Caught by: the cap on what a worker may print.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines_left = 100

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while self.lines_left > 0:
            self.lines_left -= 1
            print("x" * ((1 << 20) - 1), flush=True)
        return torch.relu(x)
