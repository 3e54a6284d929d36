"""Precision modes: under which global flags a process computes in fp32.

``ieee`` switches TF32 off in matmul and cuDNN, ``default`` is what torch ships (matmul off, cuDNN **on**), ``tf32``
switches both on. Both flags are always set and always read back: never assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kbverified.records.base import FlagState

# mode -> (matmul TF32, cuDNN TF32). Source: torch's documented defaults and arXiv 2607.16241.
MODES = {"ieee": (False, False), "default": (False, True), "tf32": (True, True)}


def set_mode(mode: str) -> None:
    """Set both TF32 flags of this process. Raises ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"precision mode {mode!r} is none of {', '.join(MODES)}")
    matmul, cudnn = MODES[mode]
    torch.backends.cuda.matmul.allow_tf32 = matmul
    torch.backends.cudnn.allow_tf32 = cudnn


def read_flags() -> FlagState:
    """The global flags that change what fp32 arithmetic means, as they are now.

    Code may set them through torch's newer interface (``fp32_precision``); reading the older one then raises.
    """
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return FlagState(
        matmul_tf32=_tf32(lambda: cuda.matmul.allow_tf32, cuda.matmul),
        cudnn_tf32=_tf32(lambda: cudnn.allow_tf32, getattr(cudnn, "conv", None), getattr(cudnn, "rnn", None)),
        matmul_precision=_matmul_precision(),
        cudnn_benchmark=bool(cudnn.benchmark),
        deterministic=bool(torch.are_deterministic_algorithms_enabled()),
        default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
    )


def _tf32(older: Callable[[], bool], *newer: Any) -> bool:
    """The older flag; where torch refuses to give it, whether any operator has TF32 by the newer interface."""
    try:
        return bool(older())
    except RuntimeError:
        return any(getattr(place, "fp32_precision", None) == "tf32" for place in newer)


def _matmul_precision() -> str:
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # set through both interfaces, to different values
        return "mixed"
