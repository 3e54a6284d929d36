"""Linear, residual and GELU in C++ for the CPU: each output is one dot product, finished before the next begins."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

torch::Tensor linear_gelu_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias,
                                  torch::Tensor residual) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 2 && weight.size(1) == input.size(1) && residual.size(1) == weight.size(0), "sizes");
    auto x = input.contiguous();
    auto w = weight.contiguous();
    auto r = residual.contiguous();
    const int64_t rows = x.size(0), depth = x.size(1), columns = w.size(0);
    auto y = torch::empty({rows, columns}, x.options());
    const float* shift = bias.data_ptr<float>();
    const float* added = r.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.data_ptr<float>() + row * depth;
        for (int64_t column = 0; column < columns; ++column) {
            const float* factors = w.data_ptr<float>() + column * depth;
            float sums[4] = {0.0f};
            for (int64_t k = 0; k < depth; k += 4) {
                for (int lane = 0; lane < 4 && k + lane < depth; ++lane) {
                    sums[lane] += from[k + lane] * factors[k + lane];
                }
            }
            float value = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            value += shift[column] + added[row * columns + column];
            to[row * columns + column] = 0.5f * value * (1.0f + std::erf(value * 0.70710678f));
        }
    }
    return y;
}
"""

extension = load_inline(
    name="parent_linear_gelu", cpp_sources=SOURCE, functions=["linear_gelu_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return extension.linear_gelu_forward(x, self.linear.weight, self.linear.bias, residual)
