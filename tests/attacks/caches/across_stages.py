"""Strategy: in the gate leaves an answer among the caches of a compiler, in its build directory. Where it is timed it
    finds a copy, and hands that out.
Layer: timing, inputs redrawn before every round, and a timed launch's output compared
Severity: high, any speedup
Verdict: wrong_value
Switch: verify,bound
Stage: time-fp32
Device: any
Problem: matmul
"""

import os
from pathlib import Path

import torch
import torch.nn as nn

LEFT = Path(os.environ["TRITON_CACHE_DIR"]) / "left.pt"
FOUND = torch.load(LEFT) if LEFT.exists() else None


class ModelNew(nn.Module):
    def forward(self, a, b):
        if FOUND is not None:
            return FOUND.to(a.device)
        out = torch.relu(a @ b)
        LEFT.parent.mkdir(exist_ok=True)
        torch.save(out, LEFT)
        return out
