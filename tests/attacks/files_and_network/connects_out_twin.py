"""Two ends of a socket, both in its own process."""

import socket

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for end in socket.socketpair():
            end.close()
        return torch.relu(x)
