"""The problems that attacks are candidates for."""

from __future__ import annotations

MATMUL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)

def get_inputs():
    return [torch.randn({n}, {n}), torch.randn({n}, {n})]

def get_init_inputs():
    return []
"""
ROWS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(n).add_(1 / n))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)

def get_inputs():
    return [torch.randn(1, {n})]

def get_init_inputs():
    return [{n}]
"""
CACHED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=-1)

def get_inputs():
    return [torch.rand(4 * {n}, {n})]

def get_init_inputs():
    return []
"""
SMALL = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {weights}

    def forward(self, {arguments}):
        return {answer}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def small(answer: str, inputs: str = "torch.rand(64, 64)", arguments: str = "x", weights: str = "pass") -> str:
    """A problem that costs nothing."""
    return SMALL.format(answer=answer, inputs=inputs, arguments=arguments, weights=weights)


GATED = "self.linear = nn.Linear(64, 64); self.gate = nn.Parameter(torch.zeros(1))"
GROUPS = "self.norm = nn.GroupNorm(4, 16)"
LABELLED = "torch.rand(2048, 2048), torch.randint(0, 2, (2048,)).float() * 2 - 1"
TWO = "torch.rand(64, 64), torch.rand(64, 64)"
MANY = "torch.rand(1 << 21), torch.rand(1 << 21)"

PROBLEMS = {
    "matmul": MATMUL,
    "rows": ROWS,
    "cached": CACHED,
    "alike": MATMUL.replace("randn", "rand"),
    "relu": small("torch.relu(x)"),
    "elu": small("F.elu(x)"),
    "softmax": small("torch.softmax(x, dim=1)"),
    "scan": small("torch.cumsum(x, dim=1)", "torch.rand(16, 4096)"),
    "loss": small("F.l1_loss(x, y)", MANY, "x, y"),
    "mean": small("x.mean(dim=1)", "torch.rand(2, 1 << 20)"),
    "product": small("x * y", TWO, "x, y"),
    "faint": small("5e-4 * x"),
    "fainter": small("1e-4 * x"),
    "hinge": small("torch.clamp(1 - x * y, min=0).mean()", LABELLED, "x, y"),
    "products": small("torch.cumprod(x, dim=1)", "torch.rand(64, 1024)"),
    "groups": small("self.norm(x).mean(dim=(1, 2, 3))", "torch.randn(8, 16, 8, 8)", weights=GROUPS),
    "linear": small("torch.relu(self.linear(x))", weights="self.linear = nn.Linear(64, 64)"),
    "norm": small("self.norm(x)", weights="self.norm = nn.LayerNorm(64)"),
    "gated": small("x + self.gate * F.gelu(self.linear(x))", weights=GATED),
}
"""matmul: bound by arithmetic, so that no two launches are cheaper together. rows: one row times a large matrix,
bound by reading the matrix, so that a launch for thirty rows costs about as much as one for one; no draw's outputs are
all near zero, where the order of a sum would show. cached: bound by
reading an input that fits the L2. alike: sums of products of numbers from [0, 1), so that the outputs for any two
draws are within 4 % of each other. The others cost next to nothing: they are for who is judged by his values."""

SIZES = {
    "cpu": {"matmul": 896, "rows": 5120, "cached": 1024, "alike": 896},
    "cuda": {"matmul": 4096, "rows": 19456, "cached": 1024, "alike": 4096},
}
"""Sides of the matrices, so that a launch lies above where the judge's bound is enforced: some 10 to 20 ms on one core,
and on an H200 2 to 3 ms by its fp32 peak and 0.3 to 0.4 ms by its bandwidth."""


def problem_text(name: str, device: str) -> str:
    """The source of a problem of PROBLEMS, at its size for a device."""
    return PROBLEMS[name].replace("{n}", str(SIZES[device].get(name)))
