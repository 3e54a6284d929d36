"""What a device is, in the few figures that matter to who writes a kernel for it. Torch-free, and no context is made.

Asked of the CUDA driver itself (libcuda): nvidia-smi knows neither the multiprocessors nor the width of the memory bus.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
from typing import Any

from kbverified.devices import cpu_model
from kbverified.lease import visible_gpus
from kbverified.records.generation import Hardware

# CUdevice_attribute, cuda.h
_MULTIPROCESSOR_COUNT = 16
_MEMORY_CLOCK_RATE_KHZ = 36
_GLOBAL_MEMORY_BUS_WIDTH_BITS = 37
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


def device_facts(kind: str) -> Hardware | None:
    """Facts of the first device of a kind that this process may use; None where there is none.

    A figure that the driver does not tell is null. ``bandwidth_gb_s`` is the bus's: two transfers per memory clock,
    times its width. The driver is asked by a process of its own: once asked, it never sees another
    CUDA_VISIBLE_DEVICES. Raises RuntimeError where that process fails.
    """
    if kind == "cpu":
        return _cpu()
    return _asked(os.environ.get("CUDA_VISIBLE_DEVICES")) if visible_gpus() else None


@functools.cache
def _asked(visible: str | None) -> Hardware:
    """What the driver says to a process that sees these devices: once, for many prompts."""
    command = [sys.executable, "-m", "kbverified.devices.facts"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"the CUDA driver does not say what the GPU is: {done.stderr.strip()[-300:]}")
    return Hardware.model_validate_json(done.stdout)


def _cpu() -> Hardware:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Hardware(name=cpu_model(), cores=os.cpu_count(), memory_gib=_gib(pages))


def cuda_facts(driver: Any) -> Hardware:
    """Facts of a driver's first device. ``driver``: libcuda as ctypes loads it. Raises RuntimeError."""

    def call(function: str, *arguments: Any) -> None:
        if code := getattr(driver, function)(*arguments):
            raise RuntimeError(f"{function} gave {code}")

    device = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    call("cuDeviceGetName", name, len(name), device)
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        return 0 if driver.cuDeviceGetAttribute(ctypes.byref(value), number, device) else value.value

    bytes_per_s = 2e3 * attribute(_MEMORY_CLOCK_RATE_KHZ) * attribute(_GLOBAL_MEMORY_BUS_WIDTH_BITS) / 8
    major, minor = attribute(_COMPUTE_CAPABILITY_MAJOR), attribute(_COMPUTE_CAPABILITY_MINOR)
    return Hardware(
        name=name.value.decode(errors="replace"),
        multiprocessors=attribute(_MULTIPROCESSOR_COUNT) or None,
        memory_gib=_gib(memory.value),
        bandwidth_gb_s=round(bytes_per_s / 1e9) or None,
        compute_capability=f"{major}.{minor}" if major else None,
    )


def _gib(nbytes: int) -> int | None:
    """In 2^30 bytes, without a fraction: the same for every card of a kind."""
    return round(nbytes / 2**30) or None


if __name__ == "__main__":
    print(cuda_facts(ctypes.CDLL("libcuda.so.1")).model_dump_json())
