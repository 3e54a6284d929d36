"""Strategy: skipped_dropout: leaves out the dropout, as if the model were not in train mode.
Verdict: wrong_value
Caught by: hidden-gate, already d1_original: both sides draw from the same seed.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, dropout: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x), dim=1)
