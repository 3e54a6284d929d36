"""How tensors lie in a shared buffer, and whether an output is of the kind that was asked for. Both sides use it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kbverified.codec import dtype_name, dtype_of
from kbverified.records.problem import TensorSpec

_ALIGN_BYTES = 512

Slot = dict[str, Any]
"""One tensor in a buffer: shape, stride (in elements, None: contiguous), dtype name, offset in bytes."""


@dataclass(frozen=True)
class Guard:
    """What lies around each tensor of a buffer, so that who leaves its bounds finds no number that could be right.

    A tensor ends where a page does, but for what its alignment asks; before it lies the gap, whole pages.
    """

    align_bytes: int
    page_bytes: int
    """A multiple of the alignment."""
    gap_bytes: int
    """A multiple of the page."""
    rubbish: int
    """The byte that gaps are full of, and whatever else of the buffer belongs to no tensor."""
    closed: bool
    """Gaps are not mapped where a candidate runs, as far as a device can do that."""


def plan(
    specs: list[TensorSpec], strides: list[tuple[int, ...] | None] | None = None, guard: Guard | None = None
) -> tuple[list[Slot], int]:
    """Slots for tensors one after the other, and the bytes of the buffer that holds them."""
    slots: list[Slot] = []
    offset = 0
    for index, spec in enumerate(specs):
        stride = strides[index] if strides else None
        size = spec.numel() * dtype_of(spec.dtype).itemsize
        if guard is None:
            at, offset = offset, offset + _rounded(size, _ALIGN_BYTES)
        else:
            size = _rounded(size, guard.align_bytes)
            offset += guard.gap_bytes + _rounded(size, guard.page_bytes)
            at = offset - size
        slots.append(
            {"shape": list(spec.shape), "stride": list(stride) if stride else None, "dtype": spec.dtype, "at": at}
        )
    if guard is not None and not guard.closed:
        offset += guard.gap_bytes  # where it is closed, what lies behind the buffer is
    return slots, offset


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step


def gaps(slots: list[Slot], page_bytes: int, gap_bytes: int) -> list[tuple[int, int]]:
    """The gaps of a guarded plan: where each starts, and its bytes."""
    return [(slot["at"] // page_bytes * page_bytes - gap_bytes, gap_bytes) for slot in slots]


def fill_between(buffer: torch.Tensor, slots: list[Slot], byte: int) -> None:
    """Fill a uint8 buffer but for its tensors."""
    for part in _between(buffer, slots):
        part.fill_(byte)


def is_between(buffer: torch.Tensor, slots: list[Slot], byte: int) -> bool:
    """Whether all of a uint8 buffer but for its tensors is this byte."""
    return all(bool((part == byte).all()) for part in _between(buffer, slots))


def _between(buffer: torch.Tensor, slots: list[Slot]) -> Iterator[torch.Tensor]:
    end = 0
    for slot in slots:
        yield buffer[end : slot["at"]]
        end = slot["at"] + _slot_bytes(slot)
    yield buffer[end:]


def _slot_bytes(slot: Slot) -> int:
    return math.prod(slot["shape"]) * dtype_of(slot["dtype"]).itemsize


def nth_set(buffer: torch.Tensor, set_bytes: int, index: int) -> torch.Tensor:
    """The part of a uint8 buffer that holds set ``index`` of several of one plan, each of ``set_bytes``."""
    return buffer[index * set_bytes : (index + 1) * set_bytes]


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype_name(tensor.dtype))


def dense_stride(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Strides worth keeping: of a permuted but gapless tensor. None where it is contiguous or not gapless."""
    if tensor.is_contiguous() or not is_gapless(tensor.shape, tensor.stride()):
        return None
    return tuple(tensor.stride())


def is_gapless(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor of this shape and stride fills its memory without gap or overlap, in whatever order."""
    expected = 1
    for step, extent in sorted((step, extent) for step, extent in zip(stride, shape, strict=True) if extent != 1):
        if step != expected:
            return False
        expected *= extent
    return True


def views(buffer: torch.Tensor, slots: list[Slot]) -> list[torch.Tensor]:
    """Typed tensors over a uint8 buffer, one per slot."""
    found = []
    for slot in slots:
        flat = buffer[slot["at"] : slot["at"] + _slot_bytes(slot)].view(dtype_of(slot["dtype"]))
        if slot.get("stride"):
            found.append(flat.as_strided(slot["shape"], slot["stride"]))
        else:
            found.append(flat.view(slot["shape"]))
    return found


def leaves(value: Any) -> list[torch.Tensor]:
    """The tensors of an output, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    return []


def structure(value: Any) -> Any:
    """Kind of an output without its tensors: ``tensor``, a list (of a list or tuple), or a dict."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, list | tuple):
        return [structure(item) for item in value]
    if isinstance(value, dict):
        return {key: structure(value[key]) for key in sorted(value)}
    return type(value).__name__


def mismatch(value: Any, wanted: Any, slots: list[Slot], device_type: str) -> tuple[str, str] | None:
    """Why an output is not of the kind asked for, as (verdict, detail); None where it is."""
    try:
        found = structure(value)
    except (TypeError, RecursionError) as error:
        return "wrong_type", f"the output has no structure: {error}"
    if found != wanted:
        return "wrong_type", f"expected {_short(wanted)}, got {_short(found)}"
    for index, (tensor, slot) in enumerate(zip(leaves(value), slots, strict=True)):
        if type(tensor) is not torch.Tensor:
            return "wrong_type", f"output {index} is a {type(tensor).__name__}, expected exactly torch.Tensor"
        if tensor.layout is not torch.strided or tensor.is_nested:  # a nested tensor has no shape to ask for
            kind = "nested" if tensor.is_nested else tensor.layout
            return "wrong_type", f"output {index} has layout {kind}, expected strided"
        if list(tensor.shape) != slot["shape"]:
            return "wrong_shape", f"output {index} has shape {list(tensor.shape)[:8]}, expected {slot['shape']}"
        if dtype_name(tensor.dtype) != slot["dtype"]:
            return "wrong_dtype", f"output {index} is {dtype_name(tensor.dtype)}, expected {slot['dtype']}"
        if tensor.device.type != device_type:
            return "wrong_device", f"output {index} is on {tensor.device.type}, expected {device_type}"
    return None


def _short(kind: Any) -> str:
    return str(kind)[:120]


def aliases(tensors: list[torch.Tensor], buffer: torch.Tensor) -> bool:
    """Whether any tensor shares memory with the input buffer."""
    low = buffer.data_ptr()
    high = low + buffer.numel()
    for tensor in tensors:
        start = tensor.untyped_storage().data_ptr()
        if tensor.numel() and start < high and start + tensor.untyped_storage().nbytes() > low:
            return True
    return False


def copy_into(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def state_digests(model: torch.nn.Module) -> list[list[Any]]:
    """[name, shape, dtype, digest of the bytes] of every entry of the state dict."""
    found = []
    for name, tensor in model.state_dict().items():
        data = tensor.detach().contiguous()
        found.append([name, list(data.shape), dtype_name(data.dtype), _digest(data)])
    return found


_DIGEST_WORDS = 1024


def _digest(data: torch.Tensor) -> str:
    """A name for a tensor's bytes that is quick to find where they lie: weights may be gigabytes.

    sha256 over the sums of its 64-bit words, by row and by column of a table with 1024 columns: other values and
    other orders of the same values give other sums. Nothing rests on it being hard to forge: it is a worker's claim.
    """
    raw = data.reshape(-1).view(torch.uint8) if data.numel() else data.new_zeros(0, dtype=torch.uint8)
    if raw.storage_offset() % 8:  # a part of a larger tensor, from anywhere in a word on
        raw = raw.clone()
    whole = raw.numel() - raw.numel() % (8 * _DIGEST_WORDS)
    rest = raw.new_zeros(8 * _DIGEST_WORDS)
    rest[: raw.numel() - whole] = raw[whole:]
    table, last = raw[:whole].view(torch.int64).view(-1, _DIGEST_WORDS), rest.view(torch.int64)
    sums = torch.cat([table.sum(0) + last, table.sum(1), last.sum().reshape(1)])
    return hashlib.sha256(sums.cpu().numpy().tobytes()).hexdigest()


def weights_match(candidate: list[Any], reference: list[Any]) -> bool | None:
    """Whether two state dicts agree; None where they do not correspond (other names and other shapes).

    They correspond by name and shape, or by the order of their shapes where the names differ.
    """
    try:
        by_name = {row[0]: (row[1], row[3]) for row in candidate}
        mine = {row[0]: (row[1], row[3]) for row in reference}
        if not mine and not by_name:
            return None
        if {k: v[0] for k, v in by_name.items()} == {k: v[0] for k, v in mine.items()}:
            return all(by_name[name][1] == mine[name][1] for name in mine)
        if [row[1] for row in candidate] == [row[1] for row in reference]:
            return [row[3] for row in candidate] == [row[3] for row in reference]
    except (TypeError, IndexError, KeyError):
        return None  # a worker's claim that is no list of rows says nothing
    return None
