"""Strategy: broken_extension: C++ that does not compile, with nothing to fall back on.
Verdict: compile_error
Caught by: compile.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor relu_forward(torch::Tensor x) {
    return undeclared_name(x)
}
"""

extension = load_inline(
    name="bundled_broken", cpp_sources=SOURCE, functions=["relu_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.relu_forward(x)
