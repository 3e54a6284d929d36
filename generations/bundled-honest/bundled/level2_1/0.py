"""torch's convolution, then scale and leaky ReLU in one C++ pass for the CPU, in place on the convolution's output."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor scale_leaky_relu_(torch::Tensor x, double scale, double slope) {
    TORCH_CHECK(x.device().is_cpu() && x.scalar_type() == torch::kFloat && x.is_contiguous(),
                "contiguous float32 on the CPU expected");
    float* data = x.data_ptr<float>();
    const float above = static_cast<float>(scale);
    const float below = static_cast<float>(slope);
    const int64_t n = x.numel();
    for (int64_t i = 0; i < n; ++i) {
        // Without a branch: signs are random here, and a processor cannot predict them.
        const float scaled = data[i] * above;
        const float positive = scaled > 0.0f ? scaled : 0.0f;
        const float negative = scaled < 0.0f ? scaled : 0.0f;
        data[i] = positive + below * negative;
    }
    return x;
}
"""

extension = load_inline(
    name="bundled_scale_leaky_relu", cpp_sources=SOURCE, functions=["scale_leaky_relu_"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, scale: float, slope: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale = scale
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.scale_leaky_relu_(self.conv(x).contiguous(), self.scale, self.slope)
