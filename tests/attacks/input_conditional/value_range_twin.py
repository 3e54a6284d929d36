"""The same polynomial for what is left of an exponent when its power of two has been taken out."""

import math

import torch
import torch.nn as nn

COEFFICIENTS = (0.069416, 0.140275, 0.509780, 0.998757, 1.000025)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x - x.amax(dim=1, keepdim=True)
        power = torch.floor(x / math.log(2))
        rest = x - power * math.log(2)
        y = torch.full_like(x, COEFFICIENTS[0])
        for coefficient in COEFFICIENTS[1:]:
            y = y * rest + coefficient
        y = torch.ldexp(y, power)
        return y / y.sum(dim=1, keepdim=True)
