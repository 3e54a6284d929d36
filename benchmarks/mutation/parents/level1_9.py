"""Convolution in C++ for the CPU: padded, with bias, each output summed over what of the kernel lies inside."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor conv_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, int64_t padding) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && weight.size(1) == input.size(1), "channels differ");
    auto x = input.contiguous();
    auto w = weight.contiguous();
    const int64_t batch = x.size(0), in_channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t out_channels = w.size(0), size = w.size(2);
    auto y = torch::empty({batch, out_channels, height, width}, x.options());
    const float* from = x.data_ptr<float>();
    const float* kernel = w.data_ptr<float>();
    const float* shift = bias.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t image = 0; image < batch; ++image) {
        for (int64_t out = 0; out < out_channels; ++out) {
            for (int64_t row = 0; row < height; ++row) {
                for (int64_t column = 0; column < width; ++column) {
                    float sum = 0.0f;
                    for (int64_t channel = 0; channel < in_channels; ++channel) {
                        for (int64_t i = 0; i < size; ++i) {
                            const int64_t y_in = row + i - padding;
                            if (y_in < 0 || y_in >= height) {
                                continue;
                            }
                            for (int64_t j = 0; j < size; ++j) {
                                const int64_t x_in = column + j - padding;
                                if (x_in >= 0 && x_in < width) {
                                    sum += from[((image * in_channels + channel) * height + y_in) * width + x_in]
                                           * kernel[((out * in_channels + channel) * size + i) * size + j];
                                }
                            }
                        }
                    }
                    to[((image * out_channels + out) * height + row) * width + column] = sum + shift[out];
                }
            }
        }
    }
    return y;
}
"""

extension = load_inline(name="parent_conv", cpp_sources=SOURCE, functions=["conv_forward"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.conv_forward(x, self.conv.weight, self.conv.bias, self.conv.padding[0])
