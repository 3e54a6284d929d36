"""Layer norm in C++ for the CPU: mean, then variance around it, then the affine step."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

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
        double sum = 0.0;
        for (int64_t i = 0; i < columns; ++i) {
            sum += from[i];
        }
        const float mean = static_cast<float>(sum / columns);
        double squares = 0.0;
        for (int64_t i = 0; i < columns; ++i) {
            const float centred = from[i] - mean;
            squares += centred * centred;
        }
        const float factor = static_cast<float>(1.0 / std::sqrt(squares / columns + eps));
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
