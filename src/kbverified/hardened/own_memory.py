"""What a candidate has torch allocate, between memory that nobody may touch, or that is looked at afterwards.

Guards of the judge's lie around what a candidate is given. Most faulty bounds go beyond what it made itself: its own
output, an intermediate result. While ``OwnMemory`` is open, every tensor that an operator returns is copied to where
a guard lies around it, and the copy is returned in its place. Operators are met where torch dispatches them, so that
those called from C++ are met as well; blocks of malloc or cudaMalloc are not, nor are other threads' tensors.

Where the device can close memory (layout.Guard.closed), touching it ends the process. Elsewhere it is full of rubbish,
and ``overwritten`` says whether it still is.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from kbverified.devices.base import Device
from kbverified.layout import Guard, is_gapless
from kbverified.protocol import HARDENED_OWN_GAP_BYTES, HARDENED_OWN_MEMORY_SHARE, HARDENED_OWN_TENSORS_MAX


class OwnMemory(TorchDispatchMode):
    """Around one launch. ``guarded``: tensors that were given a guard."""

    def __init__(self, device: Device, guard: Guard):
        super().__init__()
        self.device = device
        self.guard = guard
        self.guarded = 0
        self._room = int(HARDENED_OWN_MEMORY_SHARE * device.free_bytes())
        self._kept: list[tuple[torch.Tensor, int]] = []
        """Memory that is open, and the bytes of the tensor in it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would import its compiler at the first dispatch to keep it out of here: seconds with a device held.
        Where a candidate has imported it, ``__enter__`` keeps it out."""
        return False

    def __enter__(self) -> OwnMemory:
        if "torch._dynamo" in sys.modules:
            self._own_dispatch = sys.modules["torch._dynamo"].disable(self._own_dispatch)  # type: ignore[method-assign]
        super().__enter__()
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._own_dispatch(func, args, kwargs or {})

    def _own_dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if self.guarded >= HARDENED_OWN_TENSORS_MAX or self.device.is_capturing() or _is_view(func):
            return result
        made = [t for t in tree_leaves(result) if self._has_memory_of_its_own(t)]
        if not made:
            return result
        given = {_address(t) for t in tree_leaves((args, kwargs)) if _is_plain(t)}
        places = [_address(t) for t in made]
        fresh = {id(t) for t, at in zip(made, places, strict=True) if at not in given and places.count(at) == 1}
        return tree_map_only(torch.Tensor, lambda t: self._moved(t) if id(t) in fresh else t, result)

    def _has_memory_of_its_own(self, value: Any) -> bool:
        """Whether it is a tensor that fills its storage: no view, and nothing that a copy would not stand for."""
        if not _is_plain(value) or value.device.type != self.device.torch_device.type or not value.numel():
            return False
        fills = value.untyped_storage().nbytes() == value.numel() * value.element_size()
        return fills and is_gapless(value.shape, value.stride()) and not (value.is_conj() or value.is_neg())

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        guard = self.guard
        needed = tensor.numel() * tensor.element_size() + 2 * guard.gap_bytes + guard.align_bytes
        if needed > self._room:
            return tensor
        self.guarded += 1
        if guard.closed:
            return self.device.guarded_copy(tensor, guard.gap_bytes, guard.align_bytes, guard.rubbish)
        self._room -= needed  # open memory is kept until it has been looked at
        copy, whole = between_rubbish(self.device, tensor, guard)
        self._kept.append((whole, tensor.numel() * tensor.element_size()))
        self.device.synchronize()  # a kernel on a stream of the candidate's own must not come before this copy
        return copy

    def overwritten(self) -> str | None:
        """What lies beyond which bounds and is no rubbish any more; None where all is. Ask once the launch is over."""
        gap, byte = self.guard.gap_bytes, self.guard.rubbish
        for whole, size in self._kept:
            before, behind = int((whole[:gap] != byte).sum()), int((whole[gap + size :] != byte).sum())
            if before or behind:
                return f"wrote {before} bytes before and {behind} behind a tensor of {size} bytes that torch allocated"
        return None


def around_weight(device: Device, tensor: torch.Tensor, guard: Guard) -> torch.Tensor:
    """A copy of a weight with the guard around it; itself where it cannot be copied or there is no room for that."""
    if guard.closed:
        return device.guarded_copy(tensor, guard.gap_bytes, guard.align_bytes, guard.rubbish)
    guard = replace(guard, gap_bytes=HARDENED_OWN_GAP_BYTES)  # a model may have hundreds
    needed = tensor.numel() * tensor.element_size() + 2 * guard.gap_bytes
    can_be = _is_plain(tensor) and tensor.numel() and is_gapless(tensor.shape, tensor.stride())
    if not can_be or needed > HARDENED_OWN_MEMORY_SHARE * device.free_bytes():
        return tensor
    return between_rubbish(device, tensor, guard)[0]


def between_rubbish(device: Device, tensor: torch.Tensor, guard: Guard) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy of a gapless tensor with a gap of rubbish on either side, and all of that memory as bytes.

    The copy's storage is no larger than the tensor: to resize it is an error, and no way into the gap.
    """
    gap, size = guard.gap_bytes, tensor.numel() * tensor.element_size()
    aligned = -(-size // guard.align_bytes) * guard.align_bytes
    whole = torch.empty(aligned + 2 * gap, dtype=torch.uint8, device=tensor.device)
    whole[:gap] = guard.rubbish
    whole[gap + size :] = guard.rubbish
    own = device.part(whole, gap, size).view(tensor.dtype)
    return own.as_strided(tensor.shape, tensor.stride()).copy_(tensor), whole


def _is_plain(value: Any) -> bool:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return False
    return not (value.is_nested or value.is_quantized or value.device.type == "meta")


def _is_view(func: Any) -> bool:
    """Whether an operator says that what it returns is memory of its arguments: also of those that are not plain."""
    schema = getattr(func, "_schema", None)
    return schema is not None and any(one.alias_info is not None for one in schema.returns)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
