"""Strategy: while timed, copies the first inputs it sees into the static ones of a CUDA graph, and never again: every
    later replay computes on what was there first, and a second graph, an empty one, is what is replayed most.
Layer: timing, inputs redrawn in place before every round, and a timed launch's output compared
Severity: high, any speedup
Verdict: wrong_value
Switch: verify,bound
Device: cuda
Problem: matmul
"""

import sys

import torch
import torch.nn as nn


def in_the_gate():
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "do_forward":
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def capture(self, a, b):
        self.a, self.b = a.clone(), b.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.relu(self.a @ self.b)
        torch.cuda.current_stream().wait_stream(side)
        whole = torch.cuda.CUDAGraph()
        with torch.cuda.graph(whole):
            self.out = torch.relu(self.a @ self.b)
        whole.replay()
        self.mark = torch.zeros(1, device=a.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.mark.add_(1)
        self.whole = whole

    def forward(self, a, b):
        if in_the_gate():
            return torch.relu(a @ b)
        if self.graph is None:
            self.capture(a, b)
        self.graph.replay()
        return self.out
