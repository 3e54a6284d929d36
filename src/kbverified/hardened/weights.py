"""Weights that no kernel can count on: another seed, and identity parameters that are not quite the identity.

A norm's scale of one and shift of zero, or a bias of zero, is where a kernel may leave the parameter out and be right.
While a model is constructed here, what torch.nn.init sets to a constant gets values around it instead, and so does a
constant that becomes a parameter, as in ``nn.Parameter(torch.zeros(n))``. They are drawn from the seed, the constant
and the shape, and not from the global generator: two models agree wherever their parameters correspond, whatever else
they construct. It happens *during* construction, since an honest kernel may fold or transpose a parameter in its
constructor.

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
    """Constant parameters are spread by protocol.HARDENED_IDENTITY_SPREAD while this is open."""
    before = {name: getattr(torch.nn.init, name) for name in _PATCHED}
    new = torch.nn.Parameter.__new__

    def parameter(cls: Any, data: Any = None, *arguments: Any, **named: Any) -> Any:
        if type(data) is torch.Tensor and _is_constant(data):
            _move(data, seed)
        return new(cls, data, *arguments, **named)

    try:
        for name, function in before.items():
            setattr(torch.nn.init, name, _spread(function, seed))
        torch.nn.Parameter.__new__ = parameter  # type: ignore[method-assign, assignment]
        yield
    finally:
        torch.nn.Parameter.__new__ = new  # type: ignore[method-assign]
        for name, function in before.items():
            setattr(torch.nn.init, name, function)


def _is_constant(tensor: torch.Tensor) -> bool:
    """Of one value throughout, and with memory of its own for each element, so that it can be moved in place."""
    if not tensor.is_floating_point() or not tensor.numel() or tensor.device.type == "meta":
        return False
    return tensor.is_contiguous() and bool((tensor.detach() == tensor.detach().reshape(-1)[0]).all())


def _move(tensor: torch.Tensor, seed: int) -> None:
    """In place: whoever derives something from the tensor afterwards derives it from what it is now."""
    with torch.no_grad():
        tensor.add_(_noise(seed, float(tensor.reshape(-1)[0]), tensor).to(tensor))


def _spread(function: Callable[..., torch.Tensor], seed: int) -> Callable[..., torch.Tensor]:
    @functools.wraps(function)
    def changed(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        result = function(tensor, *arguments, **named)
        if _is_constant(tensor):
            _move(tensor, seed)
        return result

    return changed


def _noise(seed: int, constant: float, like: torch.Tensor) -> torch.Tensor:
    """Uniform within the spread, relative to the constant where it is larger than one; on the CPU, in float32."""
    key = hashlib.sha256(repr((seed, constant, tuple(like.shape))).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
    size = HARDENED_IDENTITY_SPREAD * max(abs(constant), 1.0)
    return torch.rand(like.shape, generator=generator).mul_(2).sub_(1).mul_(size)
