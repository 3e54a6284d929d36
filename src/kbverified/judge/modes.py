"""Modes under which the judge runs a forward: they see each of torch's operators, and change or note it.

A float64 draw takes other numbers from the generator than a float32 one, so a dropout would drop other elements.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kbverified.scaled_error import Choice

_aten = torch.ops.aten
_MAKERS = {
    getattr(op, overload)
    for op in (_aten.rand, _aten.randn, _aten.rand_like, _aten.randn_like)
    for overload in ("default",)
}
_FILLERS = {_aten.bernoulli_.float, _aten.uniform_.default, _aten.normal_.default, _aten.exponential_.default}
_CHOOSERS = {_aten.argmax.default: 0, _aten.argmin.default: 0, _aten.max.dim: 1, _aten.min.dim: 1}
"""Operators that return an index along a dimension, and its place among their outputs."""


class Mode(TorchDispatchMode):
    """A mode of this package: without torch's compiler, whose import takes seconds while a device is held."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Float32Random(Mode):
    """Under it random float64 numbers are drawn in float32 and cast: those of the same forward in float32."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _MAKERS and _wants_float64(args, kwargs):
            return func(*args, **{**kwargs, "dtype": torch.float32}).double()
        if func in _FILLERS and args[0].dtype == torch.float64:
            drawn = torch.empty_like(args[0], dtype=torch.float32)
            func(drawn, *args[1:], **kwargs)
            return args[0].copy_(drawn)
        if func is _aten.native_dropout.default and args[0].dtype == torch.float64:
            _, kept = func(torch.ones_like(args[0], dtype=torch.float32), *args[1:], **kwargs)
            return args[0] * kept / (1.0 - args[1]) if args[1] < 1.0 else args[0] * 0.0, kept
        return func(*args, **kwargs)


def _wants_float64(args: Any, kwargs: Any) -> bool:
    dtype = kwargs.get("dtype")
    if dtype is None and args and isinstance(args[0], torch.Tensor):
        dtype = args[0].dtype
    return (dtype or torch.get_default_dtype()) == torch.float64


class IndexSources(Mode):
    """Remembers, where ``wanted``, the values that an index was chosen among: ties can then be told from errors."""

    def __init__(self, wanted: bool):
        super().__init__()
        self.wanted = wanted
        self.found: list[tuple[torch.Tensor, Choice]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.wanted and func in _CHOOSERS:
            indices = result if isinstance(result, torch.Tensor) else result[_CHOOSERS[func]]
            dim = args[1] if len(args) > 1 else (kwargs or {}).get("dim")
            self.found.append((indices, Choice(args[0], dim)))
        return result

    def choice(self, output: torch.Tensor) -> Choice | None:
        """Where an output came from; None for one that is no such index, or was computed further."""
        return next((c for indices, c in self.found if indices is output), None)
