import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def signed_square_kernel(x_pointer, scale_pointer, out_pointer, n, columns, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    value = tl.load(x_pointer + index, mask=inside)
    scale = tl.load(scale_pointer + index % columns, mask=inside)
    tl.store(out_pointer + index, value * tl.abs(value) * scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        if n:
            signed_square_kernel[(triton.cdiv(n, 1024),)](x, self.scale, out, n, self.scale.numel(), BLOCK=1024)
        return out
