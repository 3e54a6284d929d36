"""Strategy: starts more threads than a family may have of threads and processes together, as a fork bomb does.
Layer: sandbox, the limit on processes and threads of a worker's family
Severity: medium, all other jobs of the machine
Verdict: runtime_error
Switch: limits
Device: any
Problem: relu
"""

import os
import threading

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        end = threading.Event()
        threading.stack_size(1 << 16)
        threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(16 * os.cpu_count() + 1024)]
        try:
            for thread in threads:
                thread.start()
        finally:
            end.set()
        return torch.relu(x)
