"""A thread of its own watches the machine's load between launches; the answers are computed when asked for."""

import os
import threading
import time

import torch
import torch.nn as nn

SEEN = []


def watch():
    while True:
        SEEN[:] = os.getloadavg()
        time.sleep(0.05)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=watch, daemon=True).start()

    def forward(self, a, b):
        return torch.relu(a @ b)
