"""The CPU as a device: shared memory by memfd, wall clock, resident set.

There is no TF32 unit and no allocator counter here. Results say ``cpu`` and stay out of findings about GPUs.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kbverified.devices import cpu_model
from kbverified.devices.base import Device, SharedBuffer
from kbverified.layout import is_gapless
from kbverified.records.base import DeviceInfo

# Twice a usual last-level cache; more would spend a demo's time on flushing.
_FLUSH_BYTES = 32 << 20
# malloc.h: memory is filled with the complement of this parameter's value when it is handed out.
_M_PERTURB = -6
# malloc/malloc.c: blocks of up to this size, so many of each, wait in a thread's tcache.
_TCACHE_LARGEST_BYTES = 1032
_TCACHE_BLOCKS = 7


class CpuDevice(Device):
    kind = "cpu"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self._flush: torch.Tensor | None = None

    def info(self) -> DeviceInfo:
        name = f"{cpu_model()} x{os.cpu_count()}"
        return DeviceInfo(kind="cpu", name=name, torch=torch.__version__, memory_bytes=self.total_bytes())

    def allocate(self, nbytes: int, guarded: bool = False) -> SharedBuffer:
        fd = os.memfd_create("kbverified", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        size = nbytes + mmap.PAGESIZE if guarded else max(nbytes, 1)
        try:
            os.ftruncate(fd, size)
            os.posix_fallocate(fd, 0, size)
            # A worker that shrank the file would end the judge: reading beyond a file's end is SIGBUS.
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except OSError as error:
            os.close(fd)
            raise MemoryError(f"a shared buffer of {nbytes} bytes: {error.strerror}") from None
        return self._map(fd, nbytes)

    def attach(self, fd: int, nbytes: int, closed: list[tuple[int, int]] | None = None) -> SharedBuffer:
        buffer = self._map(fd, nbytes, mmap.PAGESIZE if closed is not None else 0)
        if closed is not None:
            assert buffer.tensor is not None
            for start, size in (*closed, (nbytes, mmap.PAGESIZE)):
                _close(buffer.tensor.data_ptr() + start, size)
        return buffer

    def _map(self, fd: int, nbytes: int, behind_bytes: int = 0) -> SharedBuffer:
        size = max(nbytes, 1) + behind_bytes
        mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        tensor = torch.frombuffer(mapping, dtype=torch.uint8, count=max(nbytes, 1))[:nbytes]
        # The mapping lives as long as a tensor refers to it; only the descriptor is given back here.
        return SharedBuffer(tensor, fd, lambda: os.close(fd))

    def synchronize(self) -> None:
        pass

    def flush_cache(self) -> None:
        if self._flush is None:
            # By name: the default device is the candidate's to set, and one without memory flushes nothing.
            self._flush = torch.zeros(_FLUSH_BYTES, dtype=torch.uint8, device=self.torch_device)
        self._flush.add_(1)

    def cache_bytes(self) -> int | None:
        return _last_level_cache_bytes()

    def time_ms(self, launch: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter_ns()
        result = launch()
        return (time.perf_counter_ns() - start) / 1e6, result

    def free_bytes(self) -> int:
        return _meminfo("MemAvailable")

    def total_bytes(self) -> int:
        return _meminfo("MemTotal")

    def reset_peak(self) -> None:
        pass

    def resume_peak(self, peak_bytes: int | None) -> None:
        pass

    def peak_bytes(self) -> int | None:
        return None

    def allocated_bytes(self) -> int | None:
        return None

    def release_cached(self) -> None:
        pass

    def fill_free_memory(self, sizes: list[int], byte: int) -> None:
        """From now on glibc fills what it hands out, in blocks of any size. Nothing happens elsewhere.

        Not with 0xFF, whose complement would switch the filling off: 0x7F stands in for it. Small blocks that this
        thread has freed are handed out as they are (glibc's tcache), and are filled here once.
        """
        libc = ctypes.CDLL(None)
        if not hasattr(libc, "mallopt"):
            return
        libc.mallopt(_M_PERTURB, (byte ^ 0xFF) or 0x80)
        libc.malloc.restype = ctypes.c_void_p
        for size in range(24, _TCACHE_LARGEST_BYTES + 1, 16):
            blocks = [ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size))) for _ in range(_TCACHE_BLOCKS)]
            for block in blocks:
                ctypes.memset(block, byte, size)
            for block in blocks:
                libc.free(block)

    def guarded_copy(self, tensor: torch.Tensor, guard_bytes: int, align_bytes: int, byte: int) -> torch.Tensor:
        """Between two closed stretches of memory of its own; what of it is not the tensor's is ``byte``."""
        if tensor.layout is not torch.strided or not is_gapless(tensor.shape, tensor.stride()):
            return tensor
        size = -(-tensor.numel() * tensor.element_size() // align_bytes) * align_bytes
        body = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        mapping = mmap.mmap(-1, body + 2 * guard_bytes)
        memory = torch.frombuffer(mapping, dtype=torch.uint8)
        start, nbytes = guard_bytes + body - size, tensor.numel() * tensor.element_size()
        memory[guard_bytes:start] = byte
        memory[start + nbytes : guard_bytes + body] = byte
        _close(memory.data_ptr(), guard_bytes)
        _close(memory.data_ptr() + guard_bytes + body, guard_bytes)
        if not nbytes:
            return tensor
        # A storage of its own size: what is resized must not grow into what is closed.
        own = torch.frombuffer(mapping, dtype=torch.uint8, count=nbytes, offset=start)
        return own.view(tensor.dtype).as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def _close(address: int, nbytes: int) -> None:
    """Nobody may read or write these pages: SIGSEGV. Raises MemoryError where the kernel allows no more mappings."""
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), 0) != 0:
        raise MemoryError(f"{nbytes} bytes could not be closed: {os.strerror(ctypes.get_errno())}")


def resident_peak_bytes(pid: int) -> int | None:
    """Peak resident set of a process as the kernel counts it (VmHWM); None where it is gone or hidden."""
    return _status_bytes(pid, "VmHWM:")


def resident_bytes(pid: int) -> int | None:
    return _status_bytes(pid, "VmRSS:")


def reset_resident_peak(pid: int) -> bool:
    """Start a new VmHWM for a process (Linux: writing 5 to clear_refs). False where that is not allowed."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(pid: int, field: str) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def _meminfo(field: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/meminfo has no field {field}")


def _last_level_cache_bytes() -> int | None:
    """All level-3 caches together, as sysfs lists them: sizes in KiB, one entry per core that shares one."""
    sizes_kib: dict[str, int] = {}
    for folder in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index3"):
        try:
            size = (folder / "size").read_text().strip()
            sizes_kib[(folder / "shared_cpu_list").read_text()] = int(size.removesuffix("K"))
        except (OSError, ValueError):
            return None
    return 1024 * sum(sizes_kib.values()) or None
