"""ReLU in CuTe DSL (package nvidia-cutlass-dsl): one element a thread, compiled for the first input's layout."""

import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack

THREADS = 256


@cute.kernel
def _relu(x: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    place = block * THREADS + thread
    if place < cute.size(x):
        value = x[place]
        if value < 0.0:
            value = cutlass.Float32(0.0)
        out[place] = value


@cute.jit
def relu(x: cute.Tensor, out: cute.Tensor):
    blocks = cute.ceil_div(cute.size(x), THREADS)
    _relu(x, out).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = None

    def forward(self, x):
        flat = x.contiguous().view(-1)
        out = torch.empty_like(flat)
        tensors = [from_dlpack(tensor).mark_layout_dynamic() for tensor in (flat, out)]
        if self.compiled is None:
            self.compiled = cute.compile(relu, *tensors)
        self.compiled(*tensors)
        return out.view_as(x)
