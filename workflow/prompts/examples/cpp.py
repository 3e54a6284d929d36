import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

torch::Tensor signed_square(torch::Tensor x, torch::Tensor scale) {
    auto from = x.contiguous(), factor = scale.contiguous();
    auto to = torch::empty_like(from);
    const int64_t columns = factor.numel(), rows = columns ? from.numel() / columns : 0;
    const float* in = from.data_ptr<float>();
    const float* by = factor.data_ptr<float>();
    float* out = to.data_ptr<float>();
    for (int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
        for (int64_t column = 0; column < columns; ++column) {
            out[column] = in[column] * std::fabs(in[column]) * by[column];
        }
    }
    return to;
}
"""

extension = load_inline(
    name="signed_square_cpp",
    cpp_sources=SOURCE,
    functions=["signed_square"],
    extra_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))

    def forward(self, x):
        return extension.signed_square(x, self.scale)
