"""Strategy: traces its parent, which is to say: does with it as it likes.
Layer: sandbox, the system call is denied, and no process but its own is there for it
Severity: high; here the answer is right where its parent was held for a moment
Verdict: wrong_value
Switch: sandbox
Needs: ptrace
Device: any
Problem: relu
"""

import ctypes
import os

import torch
import torch.nn as nn

ATTACH, DETACH = 16, 17


def held(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if pid <= 1 or libc.ptrace(ATTACH, pid, 0, 0) != 0:
        return False
    os.waitpid(pid, 0x40000000)  # __WALL: it is no child
    return libc.ptrace(DETACH, pid, 0, 0) == 0


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) if held(os.getppid()) else torch.zeros_like(x)
