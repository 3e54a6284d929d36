import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor signed_square(torch::Tensor x, torch::Tensor scale);"

SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void signed_square_kernel(const float* in, const float* by, float* out, int64_t n, int64_t columns) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const float value = in[i];
        out[i] = value * fabsf(value) * by[i % columns];
    }
}

torch::Tensor signed_square(torch::Tensor x, torch::Tensor scale) {
    auto from = x.contiguous(), factor = scale.contiguous();
    auto to = torch::empty_like(from);
    const int64_t n = from.numel();
    if (n == 0) {
        return to;
    }
    const int threads = 256;
    const int64_t blocks = std::min<int64_t>((n + threads - 1) / threads, 1 << 16);
    signed_square_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        from.data_ptr<float>(), factor.data_ptr<float>(), to.data_ptr<float>(), n, factor.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return to;
}
"""

extension = load_inline(
    name="signed_square_cuda",
    cpp_sources=DECLARATION,
    cuda_sources=SOURCE,
    functions=["signed_square"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))

    def forward(self, x):
        return extension.signed_square(x, self.scale)
