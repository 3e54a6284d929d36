"""Layer norm in C++ for the CPU: mean, then variance around it, then the affine step."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

// Sum of f(value) in eight running sums: independent additions, and less rounding than one long chain.
template <typename F>
static inline float lane_sum(const float* values, int64_t n, F f) {
    float sums[8] = {0.0f};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int lane = 0; lane < 8; ++lane) {
            sums[lane] += f(values[i + lane]);
        }
    }
    for (; i < n; ++i) {
        sums[0] += f(values[i]);
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

torch::Tensor layer_norm_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, double eps) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 2 && weight.numel() == input.size(1) && bias.numel() == input.size(1), "sizes differ");
    auto x = input.contiguous();
    auto w = weight.contiguous();
    auto b = bias.contiguous();
    auto y = torch::empty_like(x);
    const int64_t rows = x.size(0), columns = x.size(1);
    const float* scale = w.data_ptr<float>();
    const float* shift = b.data_ptr<float>();
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.data_ptr<float>() + row * columns;
        float* to = y.data_ptr<float>() + row * columns;
        const float mean = lane_sum(from, columns, [](float value) { return value; }) / columns;
        const float variance = lane_sum(from, columns, [mean](float value) {
            return (value - mean) * (value - mean);
        }) / columns;
        const float factor = 1.0f / std::sqrt(variance + static_cast<float>(eps));
        for (int64_t i = 0; i < columns; ++i) {
            to[i] = (from[i] - mean) * factor * scale[i] + shift[i];
        }
    }
    return y;
}
"""

extension = load_inline(
    name="bundled_layer_norm", cpp_sources=SOURCE, functions=["layer_norm_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.layer_norm_forward(x, self.norm.weight, self.norm.bias, self.norm.eps)
