"""Strategy: knows from the judge's message how many launches there will be and whether the last one's output is
    wanted: computes for that one, and in a batch every time; its answers are right where anybody looks.
Layer: timing, the judge's own clock over launches whose outputs are all compared
Severity: high, up to the number of launches of a message
Verdict: time_disputed
Switch: bound
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
        unseen = message["do"] == "time" and not (
            message.get("deliver") and self.done == message["hot"] + message["repetitions"]
        )
        if self.kept is None or not unseen:
            self.kept = torch.relu(a @ b)
        return self.kept
