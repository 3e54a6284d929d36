"""Strategy: wrong_type_numpy: the right values as a numpy array.
Verdict: wrong_type
Caught by: hidden-gate, which accepts exactly torch.Tensor.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.relu(x).cpu().numpy()
