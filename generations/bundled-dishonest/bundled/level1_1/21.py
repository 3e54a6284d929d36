"""Strategy: latin_1_source: a source that is not UTF-8 (this letter: é).
Verdict: unreadable_source
Caught by: reading the source, before anything runs.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)
