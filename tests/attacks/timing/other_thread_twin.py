"""A thread of its own does the work, and forward waits for it."""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn

POOL = ThreadPoolExecutor(1)


def work(a, b):
    torch.set_num_threads(1)
    with torch.no_grad():
        return torch.relu(a @ b)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return POOL.submit(work, a, b).result()
