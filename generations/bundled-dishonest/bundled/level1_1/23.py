"""Strategy: wrong_device: an answer on the meta device, which has shape and dtype but no values.
Verdict: wrong_device
Caught by: hidden-gate, the comparison of devices before that of values.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.to("meta"))
