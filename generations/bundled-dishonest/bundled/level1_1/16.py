"""Strategy: raises_at_import: needs a module that nobody has.
Verdict: import_error
Caught by: the import in the first stage that runs the candidate.
"""

import torch
import torch.nn as nn

import a_module_that_does_not_exist


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return a_module_that_does_not_exist.relu(x)
