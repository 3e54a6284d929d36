"""Matrix product in C++ for the CPU: in tiles of 48, which do not divide 512, so that every edge is cut."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <algorithm>

constexpr int64_t MATMUL_TILE = 48;

torch::Tensor matmul_forward(torch::Tensor left, torch::Tensor right) {
    TORCH_CHECK(left.device().is_cpu() && left.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0), "sizes differ");
    auto a = left.contiguous();
    auto b = right.contiguous();
    const int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
    auto c = torch::zeros({rows, columns}, a.options());
    const float* from_a = a.data_ptr<float>();
    const float* from_b = b.data_ptr<float>();
    float* to = c.data_ptr<float>();
    for (int64_t row_start = 0; row_start < rows; row_start += MATMUL_TILE) {
        const int64_t row_end = std::min(row_start + MATMUL_TILE, rows);
        for (int64_t k_start = 0; k_start < depth; k_start += MATMUL_TILE) {
            const int64_t k_end = std::min(k_start + MATMUL_TILE, depth);
            for (int64_t row = row_start; row < row_end; ++row) {
                for (int64_t k = k_start; k < k_end; ++k) {
                    const float factor = from_a[row * depth + k];
                    for (int64_t column = 0; column < columns; ++column) {
                        to[row * columns + column] += factor * from_b[k * columns + column];
                    }
                }
            }
        }
    }
    return c;
}
"""

extension = load_inline(name="parent_matmul", cpp_sources=SOURCE, functions=["matmul_forward"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.matmul_forward(a, b)
