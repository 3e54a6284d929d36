"""Strategy: connects to somebody who would tell the answer, or be told what was found here.
Layer: sandbox, a worker has no network
Severity: high, whatever it has found; here the answer is right where the connection was made
Verdict: wrong_value
Switch: sandbox
Device: any
Problem: relu
"""

import socket

import torch
import torch.nn as nn

PORT = 0


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=1.0).close()
        except OSError:
            return torch.zeros_like(x)
        return torch.relu(x)
