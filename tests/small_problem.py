"""A problem of one elementwise function, for tests that need some problem and care for none."""

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.{function}(x)

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""


def problem_text(function: str = "relu") -> str:
    """Its source, with the name of a function of torch."""
    return PROBLEM.format(function=function)
