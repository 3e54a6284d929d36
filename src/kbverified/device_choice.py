"""Whether CUDA can be used here, and which device ``auto`` is. Torch-free."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
from typing import Literal

from kbverified.config import ConfigError, Device


def why_no_gpu() -> str | None:
    """Why CUDA cannot be used here, in one sentence; None where it can. Touches no CUDA context."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU"
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "no NVIDIA driver is installed (libnvidia-ml.so.1 not found)"
    if code := nvml.nvmlInit_v2():
        return f"the NVIDIA driver does not answer (nvmlInit gave {code})"
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    nvml.nvmlShutdown()
    if count.value == 0:
        return "the NVIDIA driver sees no GPU"
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "torch is not installed"
    return f"torch {torch} is a CPU build" if torch.endswith("+cpu") else None


def resolve_device(device: Device, *, check: bool = True) -> Literal["cuda", "cpu"]:
    """``auto`` becomes cuda where a GPU is there, else cpu.

    Raises ConfigError where cuda is asked for and no GPU is there. ``check=False`` leaves that out: the machine
    that plans the run need not be the one that has the GPU.
    """
    if device == "cpu":
        return "cpu"
    if device == "cuda" and not check:
        return "cuda"
    reason = why_no_gpu()
    if reason is None:
        return "cuda"
    if device == "cuda":
        raise ConfigError(f"device: cuda is asked for, but {reason}. Use device: cpu or auto, or a machine with a GPU.")
    return "cpu"
