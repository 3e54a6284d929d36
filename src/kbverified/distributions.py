"""Input laws: the problem's own inputs, drawn from a secret seed, then scaled.

Float tensors are multiplied by the distribution's factor; integer and bool tensors, scalars, labels and shapes stay
as they are (arXiv 2607.16241). Inputs are drawn on the device; where a problem insists on the CPU, they are drawn
there and moved.
"""

from __future__ import annotations

from typing import Any

import torch

from kbverified.codec import encode
from kbverified.protocol import DISTRIBUTIONS

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Inputs:
    """One draw: the encoded argument list and its tensors, on the device."""

    def __init__(self, encoded: Any, tensors: list[torch.Tensor], made_on: str):
        self.encoded = encoded
        self.tensors = tensors
        self.made_on = made_on

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors)


def draw(get_inputs: Any, distribution: str, seed: int, device: torch.device, dtype: str = "fp32") -> Inputs:
    """Draw one set of inputs. The same seed, device kind and torch give bitwise equal tensors.

    Raises KeyError for an unknown distribution and whatever the problem's ``get_inputs`` raises on the CPU.
    """
    factor = DISTRIBUTIONS[distribution]
    values, made_on = _call(get_inputs, seed, device)
    tensors: list[torch.Tensor] = []
    encoded = encode(list(values), tensors)
    if made_on == "device" and any(t.device.type != device.type for t in tensors):
        made_on = "cpu"
    ready = [_scale(t.detach().to(device), factor, dtype) for t in tensors]
    return Inputs(encoded, ready, made_on)


def _call(get_inputs: Any, seed: int, device: torch.device) -> tuple[Any, str]:
    if device.type != "cpu":
        torch.manual_seed(seed)
        try:
            with torch.device(device):
                return get_inputs(), "device"
        except (RuntimeError, TypeError):
            pass  # a problem that mixes devices or passes a CPU generator: draw on the CPU
    torch.manual_seed(seed)
    return get_inputs(), "cpu"


def _scale(tensor: torch.Tensor, factor: float, dtype: str) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    if factor != 1.0:
        tensor = tensor.mul_(factor) if _owns_memory(tensor) else tensor * factor
    return tensor.to(DTYPES[dtype]) if tensor.dtype == torch.float32 else tensor


def _owns_memory(tensor: torch.Tensor) -> bool:
    """No two elements share an address, so that scaling in place scales each once (an expanded tensor would not)."""
    return tensor.is_contiguous()
