"""Running sum in C++ for the CPU: one sequential pass over each row."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
torch::Tensor cumsum_forward(torch::Tensor input) {
    TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(input.dim() == 2, "a matrix expected");
    auto x = input.contiguous();
    auto y = torch::empty_like(x);
    const int64_t rows = x.size(0), columns = x.size(1);
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x.data_ptr<float>() + row * columns;
        float* to = y.data_ptr<float>() + row * columns;
        double sum = 0.0;
        for (int64_t i = 0; i < columns; ++i) {
            sum += from[i];
            to[i] = static_cast<float>(sum);
        }
    }
    return y;
}
"""

extension = load_inline(
    name="bundled_cumsum", cpp_sources=SOURCE, functions=["cumsum_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The kernel scans rows: bring the scanned dimension to the end and back.
        return extension.cumsum_forward(x.movedim(self.dim, -1)).movedim(-1, self.dim)
