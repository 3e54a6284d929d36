"""Weights that no kernel can count on: another seed, and identity parameters that are not quite the identity.

A norm's scale of one and shift of zero, or a bias of zero, is where a kernel may leave the parameter out and be right.
While a model is constructed here, what torch.nn.init sets to a constant gets values around it instead. They are drawn
from the seed, the constant and the shape, and not from the global generator: two models agree wherever their parameters
correspond, whatever else they construct. It happens *during* construction, since an honest kernel may fold or
transpose a parameter in its constructor.

The reference in the judge and the candidate in its worker go through the same code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kbverified.protocol import HARDENED_IDENTITY_SPREAD

_PATCHED = ("ones_", "zeros_", "constant_")


@contextlib.contextmanager
def perturbed_identity(seed: int) -> Iterator[None]:
    """Constants that torch.nn.init writes are spread by protocol.HARDENED_IDENTITY_SPREAD while this is open."""
    before = {name: getattr(torch.nn.init, name) for name in _PATCHED}
    try:
        for name, function in before.items():
            setattr(torch.nn.init, name, _spread(function, seed))
        yield
    finally:
        for name, function in before.items():
            setattr(torch.nn.init, name, function)


def _spread(function: Callable[..., torch.Tensor], seed: int) -> Callable[..., torch.Tensor]:
    @functools.wraps(function)
    def changed(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        result = function(tensor, *arguments, **named)
        if tensor.is_floating_point() and tensor.numel() and tensor.device.type != "meta":
            with torch.no_grad():
                tensor.add_(_noise(seed, float(tensor.reshape(-1)[0]), tensor).to(tensor))
        return result

    return changed


def _noise(seed: int, constant: float, like: torch.Tensor) -> torch.Tensor:
    """Uniform within the spread, relative to the constant where it is larger than one; on the CPU, in float32."""
    key = hashlib.sha256(repr((seed, constant, tuple(like.shape))).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
    size = HARDENED_IDENTITY_SPREAD * max(abs(constant), 1.0)
    return torch.rand(like.shape, generator=generator).mul_(2).sub_(1).mul_(size)
