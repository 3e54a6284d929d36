"""Strategy: as ``only_the_last``, and in a batch it computes for every other input: a batch that takes half the time
    bears out a claim of half the time.
Layer: timing, every output of a batch is compared
Severity: high, up to the number of launches of a batch
Verdict: wrong_value
Switch: verify,bound
Device: any
Problem: matmul
"""

import sys

import torch
import torch.nn as nn


def the_message():
    frame = sys._getframe(1)
    while "message" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["message"]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.served = self.kept = None
        self.done = 0

    def forward(self, a, b):
        message = the_message()
        if message is not self.served:
            self.served, self.done = message, 0
        self.done += 1
        wanted = message["do"] == "forward"
        if message["do"] == "batch":
            wanted = message["index"] % 2 == 1
        elif message.get("deliver"):
            wanted = self.done == message["hot"] + message["repetitions"]
        if self.kept is None or wanted:
            self.kept = torch.relu(a @ b)
        return self.kept
