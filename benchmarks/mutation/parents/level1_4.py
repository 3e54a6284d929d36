"""Group norm in C++ for the CPU: mean and variance of a group, then one pass with each channel's scale and shift."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

torch::Tensor group_norm_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, int64_t groups,
                                 double eps) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 4 && input.size(1) % groups == 0, "groups must divide the channels");
    auto x = input.contiguous();
    auto y = torch::empty_like(x);
    const int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t area = height * width;
    const int64_t members = channels / groups;
    const float* scale = weight.data_ptr<float>();
    const float* shift = bias.data_ptr<float>();
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t image = 0; image < batch; ++image) {
        for (int64_t group = 0; group < groups; ++group) {
            const int64_t start = (image * channels + group * members) * area;
            const int64_t count = members * area;
            double sum = 0.0;
            for (int64_t i = 0; i < count; ++i) {
                sum += from[start + i];
            }
            const double mean = sum / count;
            double squares = 0.0;
            for (int64_t i = 0; i < count; ++i) {
                const double centred = from[start + i] - mean;
                squares += centred * centred;
            }
            const double factor = 1.0 / std::sqrt(squares / count + eps);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t channel = group * members + i / area;
                to[start + i] = static_cast<float>((from[start + i] - mean) * factor * scale[channel] + shift[channel]);
            }
        }
    }
    return y;
}
"""

extension = load_inline(
    name="parent_group_norm", cpp_sources=SOURCE, functions=["group_norm_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        return extension.group_norm_forward(x, norm.weight, norm.bias, norm.num_groups, norm.eps)
