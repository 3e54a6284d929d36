"""Strategy: out_of_memory: asks for a petabyte, which no allocator grants.
Verdict: out_of_memory
Caught by: hidden-gate, the worker's report.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scratch = torch.empty(1 << 50, dtype=torch.uint8, device=x.device)
        return torch.relu(x) + scratch[0]
