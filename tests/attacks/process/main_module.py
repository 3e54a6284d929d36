"""Strategy: looks for the reference's class in ``__main__`` and in every module that is loaded.
Layer: process, no worker of a candidate loads its problem
Severity: high where the reference was given away; on its own it is never faster than that
Verdict: wrong_value
Switch: one_process
Device: any
Problem: relu
"""

import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for module in [sys.modules["__main__"], *sys.modules.values()]:
            found = vars(module).get("Model") if module is not None else None
            if isinstance(found, type) and issubclass(found, nn.Module):
                return found()(x)
        return torch.zeros_like(x)
