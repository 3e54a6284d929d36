"""Argmax in C++ for the CPU: the first of the largest values of each row."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor argmax_forward(torch::Tensor input) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 2 && input.size(1) > 0, "a matrix expected");
    auto x = input.contiguous();
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options().dtype(torch::kLong));
    int64_t* to = y.data_ptr<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.data_ptr<float>() + row * columns;
        int64_t best = 0;
        float largest = from[0];
        for (int64_t i = 1; i < columns; ++i) {
            if (from[i] > largest) {
                largest = from[i];
                best = i;
            }
        }
        to[row] = best;
    }
    return y;
}
"""

extension = load_inline(name="parent_argmax", cpp_sources=SOURCE, functions=["argmax_forward"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The kernel reduces rows: bring the reduced dimension to the end.
        return extension.argmax_forward(x.movedim(self.dim, -1))
