"""Starts as many threads as there are cores."""

import os
import threading

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        threads = [threading.Thread(target=int) for _ in range(os.cpu_count())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.relu(x)
