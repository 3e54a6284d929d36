"""Captures the work in a CUDA graph once, and copies its inputs into the static ones before every replay."""

import torch
import torch.nn as nn


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
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = torch.relu(self.a @ self.b)

    def forward(self, a, b):
        if self.graph is None:
            self.capture(a, b)
        self.a.copy_(a)
        self.b.copy_(b)
        self.graph.replay()
        return self.out
