"""Python values as JSON, with tensors taken out: what crosses between judge and worker is data, never pickle.

``encode`` replaces every tensor by its index in a list; ``decode`` puts them back. Tuples, lists and dicts keep
their kind, so that a constructor sees what ``get_init_inputs()`` returned.
"""

from __future__ import annotations

import math
from typing import Any

import torch

Json = Any


class CodecError(ValueError):
    """A value that has no encoding, or an encoding that is none of ours."""


def encode(value: Any, tensors: list[torch.Tensor]) -> Json:
    """Encode a value; tensors met on the way are appended to ``tensors``. Raises CodecError naming the type."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, tensors) for item in value]}
    if isinstance(value, list):
        return [encode(item, tensors) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, tensors) for key, item in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    raise CodecError(f"a value of type {type(value).__name__} cannot cross to a worker")


def decode(value: Json, tensors: list[torch.Tensor]) -> Any:
    """Inverse of ``encode``. Raises CodecError for anything that ``encode`` does not write."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise CodecError(f"not an encoded value: {str(value)[:80]}")
    ((kind, content),) = value.items()
    if kind == "tensor" and isinstance(content, int) and 0 <= content < len(tensors):
        return tensors[content]
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decode(item, tensors) for item in content)
    if kind == "dict":
        return {key: decode(item, tensors) for key, item in content.items()}
    if kind == "dtype" and isinstance(getattr(torch, content, None), torch.dtype):
        return getattr(torch, content)
    raise CodecError(f"not an encoded value: {str(value)[:80]}")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """Raises CodecError for a name that is no dtype."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise CodecError(f"{name!r} is no torch dtype")
    return dtype
