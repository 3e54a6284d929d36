"""Goes on from the last product of the columns before, to the end."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        parts, so_far = [], torch.ones_like(x[:, :1])
        for part in x.split(256, dim=1):
            parts.append(torch.cumprod(part, dim=1) * so_far)
            so_far = parts[-1][:, -1:]
        return torch.cat(parts, dim=1)
