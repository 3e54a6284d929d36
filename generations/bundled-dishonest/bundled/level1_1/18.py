"""Strategy: truncated_source: the answer ran into the token limit in the middle of a line.
Verdict: syntax_error
Caught by: parsing the source, before anything runs.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, min=0.0, max=float(
