"""Strategy: writes over the candidate that lies beside it.
Layer: sandbox, a worker sees its candidate and nothing beside it
Severity: high, whoever else is in the table; here the answer is right where it could write
Verdict: wrong_value
Switch: sandbox
Device: any
Problem: relu
"""

from pathlib import Path

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            Path(__file__).with_name("other.py").write_text("raise SystemExit")
        except OSError:
            return torch.zeros_like(x)
        return torch.relu(x)
