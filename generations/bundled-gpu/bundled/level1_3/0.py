"""Layer norm in CUDA: one block per row, mean first, then the variance around it."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor layer_norm_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, double eps);
"""

CUDA_SOURCE = r"""
constexpr int LAYER_NORM_THREADS = 256;  // a power of two

// Sum over the block; every thread gets it. partial has one float per thread.
__device__ float layer_norm_block_sum(float value, float* partial) {
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = LAYER_NORM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    const float sum = partial[0];
    __syncthreads();  // before anyone writes partial again
    return sum;
}

__global__ void layer_norm_kernel(const float* __restrict__ input, const float* __restrict__ weight,
                                  const float* __restrict__ bias, float* __restrict__ output, int columns,
                                  float eps) {
    __shared__ float partial[LAYER_NORM_THREADS];
    const float* from = input + static_cast<int64_t>(blockIdx.x) * columns;
    float* to = output + static_cast<int64_t>(blockIdx.x) * columns;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += LAYER_NORM_THREADS) {
        sum += from[i];
    }
    const float mean = layer_norm_block_sum(sum, partial) / columns;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += LAYER_NORM_THREADS) {
        const float centred = from[i] - mean;
        squares += centred * centred;
    }
    const float factor = 1.0f / sqrtf(layer_norm_block_sum(squares, partial) / columns + eps);

    for (int i = threadIdx.x; i < columns; i += LAYER_NORM_THREADS) {
        to[i] = (from[i] - mean) * factor * weight[i] + bias[i];
    }
}

torch::Tensor layer_norm_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, double eps) {
    TORCH_CHECK(input.is_cuda() && weight.is_cuda() && bias.is_cuda(), "tensors on CUDA expected");
    TORCH_CHECK(input.scalar_type() == torch::kFloat && input.dim() == 2, "a float32 matrix expected");
    TORCH_CHECK(weight.numel() == input.size(1) && bias.numel() == input.size(1), "sizes differ");
    auto x = input.contiguous();
    auto w = weight.contiguous();
    auto b = bias.contiguous();
    auto y = torch::empty_like(x);
    if (x.numel() == 0) {
        return y;
    }
    const int rows = static_cast<int>(x.size(0));
    const int columns = static_cast<int>(x.size(1));
    layer_norm_kernel<<<rows, LAYER_NORM_THREADS>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                    y.data_ptr<float>(), columns, static_cast<float>(eps));
    const cudaError_t error = cudaGetLastError();
    TORCH_CHECK(error == cudaSuccess, "layer_norm_kernel: ", cudaGetErrorString(error));
    return y;
}
"""

extension = load_inline(
    name="bundled_gpu_layer_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["layer_norm_forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.layer_norm_forward(x, self.norm.weight, self.norm.bias, self.norm.eps)
