"""Strategy: works on a stream of its own and returns without waiting for it. An event on the current stream is
    reached at once; the answer is there when it is fetched, since that waits for the device.
Layer: timing, work on every stream is joined before the launch counts as over
Severity: high, any speedup, and written by many without intent
Verdict: true_time
Switch: join,bound
Device: cuda
Problem: matmul
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = None

    def forward(self, a, b):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            return torch.relu(a @ b)
