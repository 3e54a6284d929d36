"""One NVIDIA GPU: memory shared through the driver's virtual memory, CUDA events, allocator and device figures.

Legacy CUDA IPC, which torch uses to share tensors, fails between processes of different users. Memory made with
cuMemCreate and exported as a POSIX file descriptor does not: the judge sends the descriptor over a Unix socket and
the worker, under its own uid, maps it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from kbverified.devices import nvml
from kbverified.devices.base import Device, SharedBuffer
from kbverified.lease import Gpu, visible_gpus
from kbverified.protocol import TIMING_JOIN_GAP_MS, TIMING_RAMP_BUDGET_S, TIMING_RAMP_CLOCK_SHARE
from kbverified.records.base import DeviceInfo
from kbverified.records.timing import DeviceReading

# c10/cuda/CUDACachingAllocator.cpp: up to 1 MiB comes from segments of 2 MiB, up to 10 MiB from segments of 20 MiB.
_SMALLER_BLOCKS_BYTES = (*(1 << 20,) * 8, *(9 << 20,) * 4)


class CudaDevice(Device):
    kind = "cuda"

    def __init__(self, gpu: Gpu | None = None) -> None:
        self._gpu = gpu
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU in this process; check nvidia-smi and CUDA_VISIBLE_DEVICES")
        from cuda.bindings import driver

        self._cu = driver
        torch.cuda.init()
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")  # makes the primary context current for the driver calls below
        wanted = gpu.uuid if gpu else os.environ.get("CUDA_VISIBLE_DEVICES", "")
        require_same_gpu(wanted, str(torch.cuda.get_device_properties(0).uuid))
        self.torch_device = torch.device("cuda", 0)
        self._flush: torch.Tensor | None = None
        self._shared_bytes = 0
        self._peak_bytes = 0
        self._context = self._call("cuCtxGetCurrent")
        # Made once: torch creates an event when it is first recorded, which would be between start and end.
        self._events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(3))
        for event in self._events:
            event.record()
        self._ahead_of_host = False
        self._everything = self._call("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
        ordinal = self._call("cuCtxGetDevice")
        self._keeps_lines = self._call("cuDeviceGetAttribute", attribute, ordinal) > 0
        peak_clock = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE
        self._cycles_per_ms = int(self._call("cuDeviceGetAttribute", peak_clock, ordinal))  # kHz
        self._location = driver.CUmemLocation()
        self._location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self._location.id = 0

    def info(self) -> DeviceInfo:
        gpu = self._gpu or visible_gpus()[0]
        return DeviceInfo(
            kind="cuda",
            name=gpu.name,
            uuid=gpu.uuid,
            driver=gpu.driver,
            torch=torch.__version__,
            cuda=torch.version.cuda,
            memory_bytes=self.total_bytes(),
        )

    # --- shared memory --------------------------------------------------------------------------------------
    def _call(self, function: str, *arguments: Any) -> Any:
        error, *results = getattr(self._cu, function)(*arguments)
        if error == self._cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise MemoryError(f"{function}: the device is out of memory")
        if error != self._cu.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{function} failed: {getattr(error, 'name', error)}")
        return results[0] if results else None

    def _properties(self) -> Any:
        properties = self._cu.CUmemAllocationProp()
        properties.type = self._cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location = self._location
        properties.requestedHandleTypes = self._handle_type
        return properties

    @property
    def _handle_type(self) -> Any:
        return self._cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

    def _rounded(self, nbytes: int) -> int:
        flag = self._cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granularity = int(self._call("cuMemGetAllocationGranularity", self._properties(), flag))
        return -(-max(nbytes, 1) // granularity) * granularity

    def allocate(self, nbytes: int, guarded: bool = False) -> SharedBuffer:
        size = self._rounded(nbytes)
        handle = self._call("cuMemCreate", size, self._properties(), 0)
        fd = int(self._call("cuMemExportToShareableHandle", handle, self._handle_type, 0))
        self._count_shared(size)
        return self._map(handle, size, nbytes, fd, guarded)

    def attach(self, fd: int, nbytes: int, closed: list[tuple[int, int]] | None = None) -> SharedBuffer:
        handle = self._call("cuMemImportFromShareableHandle", fd, self._handle_type)
        os.close(fd)
        return self._map(handle, self._rounded(nbytes), nbytes, None, closed is not None)

    def _map(self, handle: Any, size: int, nbytes: int, fd: int | None, guarded: bool) -> SharedBuffer:
        """``guarded``: the buffer ends where the mapping does, and a granule of addresses behind it stays unmapped.

        Inner gaps stay open: a handle can be mapped from its start only. Never run, and asked for by nobody yet.
        """
        reserved = size + (self._rounded(1) if guarded else 0)
        first = size - nbytes if guarded else 0
        address = self._call("cuMemAddressReserve", reserved, 0, 0, 0)
        self._call("cuMemMap", address, size, 0, handle, 0)
        access = self._cu.CUmemAccessDesc()
        access.location = self._location
        access.flags = self._cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemSetAccess", address, size, [access], 1)
        whole = torch.as_tensor(_ArrayInterface(int(address), size), device=self.torch_device)
        tensor = whole[first : first + nbytes]

        def release() -> None:
            torch.cuda.synchronize()
            self._call("cuMemUnmap", address, size)
            self._call("cuMemAddressFree", address, reserved)
            self._call("cuMemRelease", handle)
            if fd is not None:
                os.close(fd)
                self._count_shared(-size)

        return SharedBuffer(tensor, fd, release)

    # --- clock ----------------------------------------------------------------------------------------------
    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def is_capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def forget_persisting(self) -> None:
        """Make normal lines of what any stream of this context asked the L2 to keep: they would outlive a flush."""
        if self._keeps_lines:
            self._call("cuCtxResetPersistingL2Cache")

    def flush_cache(self) -> None:
        if self._flush is None:
            cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
            self._flush = torch.empty(2 * cache_bytes, dtype=torch.uint8, device=self.torch_device)
        self._flush.zero_()

    def cache_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(0).L2_cache_size)

    def wait(self, duration_ms: float) -> None:
        """A kernel that counts cycles: as many as the peak SM clock has in that time, so that it is never shorter."""
        torch.cuda._sleep(int(duration_ms * self._cycles_per_ms))

    def hold_streams(self) -> None:
        """By an event that everything submitted to the context from now on waits for, on whatever stream.

        A driver before CUDA 12.5 has no such wait, and refuses it while a stream is being captured: then other streams
        may run ahead of the clock.
        """
        stream = torch.cuda.current_stream().cuda_stream
        try:
            self._call("cuEventRecord", self._everything, stream)
            self._call("cuCtxWaitEvent", self._context, self._everything)
        except (AttributeError, RuntimeError):
            return

    def time_ms(self, launch: Callable[[], Any]) -> tuple[float, Any]:
        """From one event to another on the current stream; to a third where other streams went on after the second.

        The third is recorded behind all that any stream of the context was given. By itself it would charge every
        launch for the join; a gap that the join alone explains is therefore not counted (decision 15).
        """
        start, end, joined = self._events
        start.record()
        result = launch()
        end.record()
        self._wait_for_all_streams()
        joined.record()
        self._ahead_of_host = end.query()
        torch.cuda.synchronize()
        own_ms, all_ms = start.elapsed_time(end), start.elapsed_time(joined)
        return (own_ms if all_ms - own_ms <= TIMING_JOIN_GAP_MS else all_ms), result

    def was_ahead_of_host(self) -> bool | None:
        return self._ahead_of_host

    def _wait_for_all_streams(self) -> None:
        """Let the current stream wait for every stream of the context, on the device.

        The legacy default stream would join blocking streams only, and torch's side streams are none. Where the
        driver cannot record a context's event (before CUDA 12.5, or while a stream is being captured) the host waits.
        """
        try:
            self._call("cuCtxRecordEvent", self._context, self._everything)
            self._call("cuStreamWaitEvent", torch.cuda.current_stream().cuda_stream, self._everything, 0)
        except RuntimeError:
            torch.cuda.synchronize()

    @property
    def _nvml(self) -> nvml.Nvml:
        return nvml.of(self._gpu.uuid if self._gpu else None)

    def reading(self) -> DeviceReading | None:
        return self._nvml.reading()

    def ramp_up(self) -> float | None:
        """Load the SMs with fp32 matrix products until NVML reports the clock up, or the budget is spent."""
        matrix = torch.rand(4096, 4096, device=self.torch_device)
        start = time.monotonic()
        while time.monotonic() - start < TIMING_RAMP_BUDGET_S:
            for _ in range(4):
                matrix @ matrix
            torch.cuda.synchronize()
            clock_mhz = self._nvml.sm_clock_mhz()
            if clock_mhz is not None and clock_mhz >= TIMING_RAMP_CLOCK_SHARE * self._nvml.max_sm_clock_mhz:
                break
        return round(time.monotonic() - start, 3)

    # --- memory ---------------------------------------------------------------------------------------------
    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info()[0]

    def total_bytes(self) -> int:
        return torch.cuda.mem_get_info()[1]

    def _count_shared(self, change_bytes: int) -> None:
        """Buffers made here lie outside torch's allocator: close its current peak off and count on from a new sum."""
        self._peak_bytes = max(self._peak_bytes, torch.cuda.max_memory_allocated() + self._shared_bytes)
        torch.cuda.reset_peak_memory_stats()
        self._shared_bytes += change_bytes

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        self._peak_bytes = 0

    def resume_peak(self, peak_bytes: int | None) -> None:
        self.reset_peak()
        self._peak_bytes = peak_bytes or 0

    def peak_bytes(self) -> int | None:
        """Of this process: torch's allocator and the shared buffers that it made."""
        return max(self._peak_bytes, torch.cuda.max_memory_allocated() + self._shared_bytes)

    def allocated_bytes(self) -> int | None:
        return torch.cuda.memory_allocated()

    def release_cached(self) -> None:
        torch.cuda.empty_cache()

    def fill_free_memory(self, sizes: list[int], byte: int) -> None:
        """Blocks that torch's allocator keeps and hands out next; a raw cudaMalloc does not get them.

        Beside those of these sizes some of the allocator's two pools for smaller ones, of which it cuts what is asked.
        """
        room, blocks = self.free_bytes() // 4, []
        for size in (*sizes, *_SMALLER_BLOCKS_BYTES):
            if size <= room:
                blocks.append(torch.full((size,), byte, dtype=torch.uint8, device=self.torch_device))
                room -= size
        del blocks
        self.synchronize()

    def part(self, whole: torch.Tensor, start: int, nbytes: int) -> torch.Tensor:
        return torch.as_tensor(_ArrayInterface(whole.data_ptr() + start, nbytes, whole), device=self.torch_device)


def start_driver() -> None:
    """cuInit: the part of opening a GPU that needs nothing on it. Raises RuntimeError where it fails."""
    from cuda.bindings import driver

    (error,) = driver.cuInit(0)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuInit failed: {error}")


def require_same_gpu(wanted: str, opened: str) -> None:
    """Raise RuntimeError where a process has opened another GPU than the leased one (uuids, ``GPU-`` or not).

    The driver reads CUDA_VISIBLE_DEVICES once: a library that touches the driver before the lease is known leaves the
    process on the machine's first GPU, beside whoever leased that one, with its inputs in another GPU's memory.
    Anything but a GPU's uuid (an index, a MIG instance) is not checked.
    """
    if wanted.startswith("GPU-") and not wanted.removeprefix("GPU-").startswith(opened.removeprefix("GPU-")):
        raise RuntimeError(
            f"this process was to use {wanted} and has opened GPU-{opened.removeprefix('GPU-')}: something touched "
            "the CUDA driver before CUDA_VISIBLE_DEVICES was set"
        )


class _ArrayInterface:
    """What torch.as_tensor needs to view device memory by its address (the CUDA array interface, version 2).

    ``owner``: lives as long as the view does.
    """

    def __init__(self, address: int, nbytes: int, owner: Any = None):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }
