"""Strategy: no_model_new: hands in the reference's name instead of ModelNew.
Verdict: no_model_new
Caught by: the look for ModelNew in the source or after the import.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)
