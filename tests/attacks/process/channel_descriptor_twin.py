"""Looks through its descriptors as well, and uses a pair of sockets of its own."""

import os
import socket
import stat

import torch
import torch.nn as nn


def sockets():
    found = []
    for fd in range(3, 256):
        try:
            found += [fd] if stat.S_ISSOCK(os.fstat(fd).st_mode) else []
        except OSError:
            continue
    return found


class ModelNew(nn.Module):
    def forward(self, x):
        before = sockets()
        mine, other = socket.socketpair()
        with mine, other:
            assert len(sockets()) == len(before) + 2
            mine.sendall(b"relu")
            assert other.recv(4) == b"relu"
        return torch.relu(x)
