import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack

THREADS = 256


@cute.kernel
def signed_square_kernel(x: cute.Tensor, scale: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    threads, _, _ = cute.arch.block_dim()
    rows, columns = x.shape
    index = block * threads + thread
    if index < rows * columns:
        row = index // columns
        column = index % columns
        value = x[row, column]
        magnitude = value
        if value < 0.0:
            magnitude = -value
        out[row, column] = value * magnitude * scale[column]


@cute.jit
def signed_square(x: cute.Tensor, scale: cute.Tensor, out: cute.Tensor):
    blocks = cute.ceil_div(cute.size(x), THREADS)
    signed_square_kernel(x, scale, out).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1))


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))
        self.compiled = {}

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        tensors = [from_dlpack(tensor.detach()) for tensor in (x, self.scale, out)]
        key = (x.shape, x.dtype)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(signed_square, *tensors)
        self.compiled[key](*tensors)
        return out
