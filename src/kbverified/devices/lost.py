"""What a device says when it is gone, or broken: the machine's fault, whoever happened to be using it. Torch-free.

The words are those of cudaGetErrorString (CUDA 13.0, driver_types.h), which torch puts behind "CUDA error: ", and the
driver's names, which cuda.bindings gives. A program's own errors (an illegal address, a failed assert, a misaligned
one) are not among them: no device that works is lost by another's. But 719 is, which a kernel gives as well: where a
worker says so, a canary decides.
"""

from __future__ import annotations

_SAID = (
    "unspecified launch failure",  # 719: mostly a kernel's own doing, and what is left of a GPU that fell off its bus
    "uncorrectable ECC error encountered",  # 214
    "uncorrectable NVLink error detected during the execution",  # 220
    "Invalid access of peer GPU memory over nvlink or a hardware error",  # 721
    "hardware stack error",  # 714
    "CUDA-capable device(s) is/are busy or unavailable",  # 46
    "no CUDA-capable device is detected",  # 100
    "system not yet initialized",  # 802
    "unknown error",  # 999
)
_PREFIXES = ("CUDA error", "CUDA driver error", "Triton Error [CUDA]")
_NAMED = (
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "CUDA_ERROR_UNKNOWN",
    "GPU is lost",  # NVML, error 15
)


def says_lost(text: str) -> bool:
    """Whether an error's text is one of a lost device. From a worker it is a claim: ask a canary."""
    said = any(prefix in text for prefix in _PREFIXES) and any(words in text for words in _SAID)
    return said or any(name in text for name in _NAMED)
