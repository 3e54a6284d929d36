"""Times itself with events of its own, and leaves them alone."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.events = None

    def forward(self, a, b):
        if self.events is None:
            self.events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.events[0].record()
        out = torch.relu(a @ b)
        self.events[1].record()
        return out
