"""Cross entropy in C++ for the CPU: the log-sum-exp of a row minus the logit of its label, averaged."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cmath>

torch::Tensor cross_entropy_forward(torch::Tensor logits, torch::Tensor labels) {
    TORCH_CHECK(logits.device().is_cpu() && logits.scalar_type() == torch::kFloat, "float32 on the CPU expected");
    TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && labels.dim() == 1 && labels.size(0) == logits.size(0)
                && labels.scalar_type() == torch::kLong, "one int64 label for each row of logits expected");
    auto x = logits.contiguous();
    auto t = labels.contiguous();
    const int64_t rows = x.size(0), classes = x.size(1);
    const int64_t* label = t.data_ptr<int64_t>();
    double loss = 0.0;
    for (int64_t row = 0; row < rows; ++row) {
        TORCH_CHECK(label[row] >= 0 && label[row] < classes, "label out of range");
        const float* from = x.data_ptr<float>() + row * classes;
        float largest = from[0];
        for (int64_t i = 1; i < classes; ++i) {
            largest = from[i] > largest ? from[i] : largest;
        }
        double total = 0.0;
        for (int64_t i = 0; i < classes; ++i) {
            total += std::exp(from[i] - largest);
        }
        loss += std::log(total) + largest - from[label[row]];
    }
    return torch::full({}, loss / rows, x.options());
}
"""

extension = load_inline(
    name="bundled_cross_entropy", cpp_sources=SOURCE, functions=["cross_entropy_forward"], extra_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return extension.cross_entropy_forward(logits, labels)
