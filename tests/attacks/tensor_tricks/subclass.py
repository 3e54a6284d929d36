"""Strategy: zeros, of a class of tensors whose comparisons always say yes.
Layer: gate, exactly torch.Tensor, and the comparison is made in the judge
Severity: high, nothing is computed
Verdict: wrong_type
Switch: one_process
Device: any
Problem: relu
"""

import torch
import torch.nn as nn

COMPARISONS = ("allclose", "isclose", "equal", "eq", "__eq__")


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in COMPARISONS:
            return True
        return super().__torch_function__(func, types, args, kwargs or {})


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x).as_subclass(Agreeable)
