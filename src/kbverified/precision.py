"""Precision modes: under which global flags a process computes in fp32.

``ieee`` switches TF32 off in matmul and cuDNN, ``default`` is what torch ships (matmul off, cuDNN **on**), ``tf32``
switches both on. Both flags are always set and always read back: never assumed.
"""

from __future__ import annotations

import torch

from kbverified.records import FlagState

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
    """The global flags that change what fp32 arithmetic means, as they are now."""
    return FlagState(
        matmul_tf32=bool(torch.backends.cuda.matmul.allow_tf32),
        cudnn_tf32=bool(torch.backends.cudnn.allow_tf32),
        matmul_precision=str(torch.get_float32_matmul_precision()),
        cudnn_benchmark=bool(torch.backends.cudnn.benchmark),
        deterministic=bool(torch.are_deterministic_algorithms_enabled()),
        default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
    )
