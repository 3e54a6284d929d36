"""Reads the clock around its own work, as one who tunes does, and leaves it alone."""

import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spent_ns = 0

    def forward(self, a, b):
        start = time.perf_counter_ns()
        out = torch.relu(a @ b)
        self.spent_ns += time.perf_counter_ns() - start
        return out
