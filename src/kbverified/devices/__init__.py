"""Devices behind one interface. Listing and leasing them costs no torch import; opening one does."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbverified.devices.base import Device
    from kbverified.lease import Gpu


def cpu_model() -> str:
    """The processor of this machine, by the kernel's name for it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def open_device(kind: str, gpu: Gpu | None = None) -> Device:
    """Open the device of this process: ``cpu``, or the first visible GPU, described by ``gpu`` where it is known.

    Raises ValueError for an unknown kind, RuntimeError where the device cannot be opened.
    """
    if kind == "cpu":
        from kbverified.devices.cpu import CpuDevice

        return CpuDevice()
    if kind == "cuda":
        from kbverified.devices.cuda import CudaDevice

        return CudaDevice(gpu)
    raise ValueError(f"device {kind!r} is neither cuda nor cpu")


def start_driver(kind: str) -> None:
    """Have this process's CUDA driver read CUDA_VISIBLE_DEVICES and find its GPU; no context is made on it.

    Raises RuntimeError where it cannot.
    """
    if kind == "cuda":
        from kbverified.devices.cuda import start_driver as start

        start()


def start_readings(kind: str, gpu: Gpu) -> None:
    """Start what ``reading`` and ``ramp_up`` of this process will ask about a GPU: it need not be held for that."""
    if kind == "cuda":
        from kbverified.devices import nvml

        nvml.of(gpu.uuid)


def prepare(kind: str) -> None:
    """Import what opening a device will need, before a device is held. Raises RuntimeError where it is missing."""
    import importlib

    importlib.import_module(f"kbverified.devices.{kind}")
    if kind == "cuda":
        try:
            importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise RuntimeError(f"device cuda needs cuda-bindings ({error}): pip install -r envs/gpu.txt") from error
        importlib.import_module("kbverified.devices.nvml")
