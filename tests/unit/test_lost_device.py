"""Which errors are of a device that is gone, in the words of CUDA, torch and the driver."""

from __future__ import annotations

import pytest
import torch

from kbverified.devices.cpu import CpuDevice
from kbverified.devices.lost import says_lost

TORCH = "CUDA error: {}\nCUDA kernel errors might be asynchronously reported at some other API call.\n"

LOST = [
    TORCH.format("unspecified launch failure"),
    TORCH.format("uncorrectable ECC error encountered"),
    TORCH.format("CUDA-capable device(s) is/are busy or unavailable"),
    TORCH.format("unknown error"),
    "Traceback (most recent call last):\n  File 'x.py'\n" + TORCH.format("no CUDA-capable device is detected"),
    "RuntimeError: Triton Error [CUDA]: unspecified launch failure",
    "RuntimeError: CUDA driver error: unknown error",
    "cuMemCreate failed: CUDA_ERROR_ECC_UNCORRECTABLE",
    "cuMemUnmap failed: CUDA_ERROR_LAUNCH_FAILED",
]
PROGRAMS_OWN = [
    TORCH.format("an illegal memory access was encountered"),
    TORCH.format("device-side assert triggered"),
    TORCH.format("misaligned address"),
    TORCH.format("invalid configuration argument"),
    "Triton Error [CUDA]: an illegal memory access was encountered",
    "cuMemMap failed: CUDA_ERROR_INVALID_VALUE",
    "CUDA out of memory. Tried to allocate 2.00 GiB.",
    "unknown error in my parser",
    "",
]


@pytest.mark.parametrize("text", LOST)
def test_a_lost_device(text: str) -> None:
    assert says_lost(text)
    assert CpuDevice().is_machines(torch.AcceleratorError(text))


@pytest.mark.parametrize("text", PROGRAMS_OWN)
def test_a_programs_own_error(text: str) -> None:
    assert not says_lost(text)
    assert not CpuDevice().is_machines(RuntimeError(text))


def test_only_an_error_of_the_runtime_is_one_of_the_device() -> None:
    """A problem's own exception may quote whatever it likes."""
    assert not CpuDevice().is_machines(ValueError(LOST[0]))
    assert CpuDevice().is_machines(torch.OutOfMemoryError("CUDA out of memory."))
    assert CpuDevice().is_machines(MemoryError())
