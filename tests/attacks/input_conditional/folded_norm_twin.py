"""The same mean from each channel's own, without writing what is normalised."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x):
        groups = x.reshape(x.shape[0], 4, -1)
        mean = groups.mean(dim=2, keepdim=True)
        factor = (groups.var(dim=2, correction=0, keepdim=True) + self.norm.eps).rsqrt()
        channels = x.mean(dim=(2, 3)).reshape(x.shape[0], 4, 4)
        normal = ((channels - mean) * factor).reshape(x.shape[0], 16)
        return (normal * self.norm.weight + self.norm.bias).mean(dim=1)
