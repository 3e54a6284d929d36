"""Weights that no kernel can count on: another seed, and identity parameters that are not quite the identity.

A norm's scale of one and shift of zero, or a bias of zero, is where a kernel may leave the parameter out and be right.
While a model is constructed here, a constant that becomes a parameter, as in ``nn.Parameter(torch.zeros(n))``, gets
values around it instead, and so does a parameter that is filled with one, which is what torch.nn.init does, under
whatever name a module has taken its functions. They are drawn from the seed, the constant, the shape and the
parameter's place among those of its shape and constant, and not from the global generator: two models agree where they
set such parameters in the same order, whatever else they construct. It happens *during* construction, since an honest
kernel may fold or transpose a parameter in its constructor.

The reference in the judge and the candidate in its worker go through the same code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kbverified.protocol import HARDENED_IDENTITY_SPREAD

_FILLING = ("fill_", "zero_")
"""Methods of tensors: all that torch.nn.init sets to a constant goes through one of them."""
_FEW = 64


@contextlib.contextmanager
def perturbed_identity(seed: int) -> Iterator[None]:
    """Constant parameters are spread by protocol.HARDENED_IDENTITY_SPREAD while this is open."""
    new, moves = torch.nn.Parameter.__new__, _Moves(seed)
    determined = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()

    def parameter(cls: Any, data: Any = None, *arguments: Any, **named: Any) -> Any:
        made = new(cls, data, *arguments, **named)
        moves.know(made)
        moves.move(made)
        return made

    try:
        # Memory that nobody has set yet is NaN then (torch.utils.deterministic), and not by chance a constant.
        # Set directly: torch.use_deterministic_algorithms imports inductor, a second on either side.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        for name in _FILLING:
            setattr(torch.Tensor, name, moves.after(getattr(torch.Tensor, name)))
        torch.nn.Parameter.__new__ = parameter  # type: ignore[method-assign, assignment]
        yield
    finally:
        torch._C._set_deterministic_algorithms(determined, warn_only=only_warns)
        torch.nn.Parameter.__new__ = new  # type: ignore[method-assign]
        for name in _FILLING:
            delattr(torch.Tensor, name)  # torch's own is its base class's


class _Moves:
    """The parameters of one construction, each known by where its memory lies."""

    def __init__(self, seed: int):
        self.seed = seed
        self.known: dict[int, int] = {}
        """Address -> elements."""
        self.places: dict[tuple[int, Any], int] = {}
        """(address, shape and constant) -> place among the parameters of that."""
        self.so_far: Counter[Any] = Counter()
        """Parameters by shape and constant."""
        self.results: set[float] = set()
        """What single numbers were moved to: a copy of one is no new constant."""

    def know(self, parameter: Any) -> None:
        """It lies where an earlier one lay that is gone: what was known of that is forgotten."""
        if _has_memory(parameter):
            address = parameter.data_ptr()
            self.known[address] = parameter.numel()
            self.places = {key: place for key, place in self.places.items() if key[0] != address}

    def after(self, method: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """A tensor's method, after which a parameter that is a constant is moved."""

        @functools.wraps(method)
        def changed(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
            result = method(tensor, *arguments, **named)
            self.move(tensor)
            return result

        return changed

    def move(self, tensor: Any) -> None:
        """In place: whoever derives something from the tensor afterwards derives it from what it is now.

        Nothing happens to what is no whole parameter or no constant.
        """
        if not _has_memory(tensor):
            return
        address, single = tensor.data_ptr(), tensor.numel() == 1
        if self.known.get(address) != tensor.numel() or not _is_constant(tensor):
            return
        constant = float(tensor.detach().reshape(-1)[0])
        if single and constant in self.results:
            return
        kind = (tuple(tensor.shape), constant)
        if (address, kind) not in self.places:
            self.places[address, kind] = self.so_far[kind]
            self.so_far[kind] += 1
        with torch.no_grad():
            tensor.add_(_noise((self.seed, *kind, self.places[address, kind]), constant, tensor).to(tensor))
        if single:
            self.results.add(float(tensor.detach().reshape(-1)[0]))


def _has_memory(tensor: Any) -> bool:
    """Whether it is a tensor of floats with memory of its own for each element, so that it can be moved in place."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return False
    return tensor.is_floating_point() and tensor.numel() > 0 and tensor.is_contiguous()


def _is_constant(tensor: torch.Tensor) -> bool:
    flat = tensor.detach().reshape(-1)
    few = flat[:_FEW]  # tens of millions of random weights are told from a constant by their first
    return bool((few == flat[0]).all()) and bool((flat == flat[0]).all())


def _noise(seed: tuple[Any, ...], constant: float, like: torch.Tensor) -> torch.Tensor:
    """Of either sign, its size uniform within the spread, relative to the constant where that is larger than one.

    Drawn on the CPU, in float32.
    """
    key = hashlib.sha256(repr(seed).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
    least, most = (end * max(abs(constant), 1.0) for end in HARDENED_IDENTITY_SPREAD)
    size = torch.rand(like.shape, generator=generator).mul_(most - least).add_(least)
    return torch.where(torch.rand(like.shape, generator=generator) < 0.5, -size, size)
