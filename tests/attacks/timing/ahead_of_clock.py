"""Strategy: works on a stream of its own, which does not wait for the current one, and lets the current one wait for
    it. What is queued before a launch to hide the host's way covers the work too: it is done when the clock starts.
Layer: timing, every stream of the context is held until the clock starts
Severity: high, half a millisecond of each launch
Verdict: true_time
Switch: held,bound
Device: cuda
Problem: rows
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(n).add_(1 / n))
        self.stream = None

    def forward(self, x):
        if self.stream is None:
            torch.cuda.synchronize()  # the weight is there
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            out = nn.functional.linear(x, self.weight)
        torch.cuda.current_stream().wait_stream(self.stream)
        out.record_stream(torch.cuda.current_stream())
        return out
