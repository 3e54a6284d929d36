"""What a stage needs of a device: shared buffers, a clock, memory figures. One interface, two rooms behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from kbverified.devices.lost import says_lost
from kbverified.records.base import DeviceInfo
from kbverified.records.timing import DeviceReading


class SharedBuffer:
    """Device memory that two processes map. ``tensor`` is its uint8 view, ``fd`` names it to the other process.

    The judge makes it, the worker attaches to it; each closes its own mapping.
    """

    def __init__(self, tensor: torch.Tensor, fd: int | None, release: Callable[[], None]):
        self.tensor: torch.Tensor | None = tensor
        self.fd = fd
        self._release: Callable[[], None] | None = release

    @property
    def nbytes(self) -> int:
        return 0 if self.tensor is None else self.tensor.numel()

    def close(self) -> None:
        """Unmap; idempotent. Views of the buffer must not be used afterwards."""
        release, self._release = self._release, None
        self.tensor = None
        if release is not None:
            release()


class Device(ABC):
    """One device of this process."""

    kind: str
    torch_device: torch.device

    @abstractmethod
    def info(self) -> DeviceInfo: ...

    @abstractmethod
    def allocate(self, nbytes: int, guarded: bool = False) -> SharedBuffer:
        """Judge's side: make a buffer of nbytes. ``guarded``: one that can be attached to with closed parts.

        Raises MemoryError where it does not fit.
        """

    @abstractmethod
    def attach(self, fd: int, nbytes: int, closed: list[tuple[int, int]] | None = None) -> SharedBuffer:
        """Worker's side: map a received buffer. Takes the fd over.

        ``closed``: of a guarded buffer (None: it is none), places and bytes that are to be unreadable, as far as the
        device can do that; what lies right behind the buffer is so in any case.
        """

    @abstractmethod
    def synchronize(self) -> None: ...

    def answers(self) -> bool:
        """False where this process's context is lost, as after a failed assert in a kernel."""
        try:
            self.synchronize()
        except RuntimeError:
            return False
        return True

    def is_capturing(self) -> bool:
        """Whether what is launched now is recorded and not run: nothing may wait for it."""
        return False

    @abstractmethod
    def flush_cache(self) -> None:
        """Write more than the last-level cache holds. What the cache was asked to keep, ``forget_persisting`` first."""

    def forget_persisting(self) -> None:
        """Let go of cache lines that a flush would leave. Nothing to do where a cache keeps nothing on request."""
        return None

    @abstractmethod
    def cache_bytes(self) -> int | None:
        """Size of the last-level cache; None where the system does not say."""

    def was_ahead_of_host(self) -> bool | None:
        """Whether the device had done all of the last timed launch when the host had just given it all.

        The time is the host's then. None on a device without a queue.
        """
        return None

    @abstractmethod
    def time_ms(self, launch: Callable[[], Any]) -> tuple[float, Any]:
        """One launch, timed on this device until no stream of this process has work; (milliseconds, result)."""

    def wait(self, duration_ms: float) -> None:
        """Queue a wait on the device. One without a queue does not wait."""
        return None

    def hold_streams(self) -> None:
        """What any stream of this process is given from now on begins when all that is queued now has been done."""
        return None

    def time_cold_ms(self, launch: Callable[[], Any], queued_flushes: int, cover_ms: float = 0.0) -> tuple[float, Any]:
        """``time_ms`` of a launch that finds the cache cold.

        ``queued_flushes`` 0: the device is idle when the clock starts, and the host's way to the first kernel is in
        the time. Else a wait of ``cover_ms`` and so many flushes are queued, and the clock starts behind them on the
        device: what the host needs meanwhile is hidden, as far as they last. No stream's work begins before the clock.
        A device without a queue has only the order of flush and synchronisation changed.
        """
        if queued_flushes:
            self.synchronize()
        self.forget_persisting()  # once: nothing of the candidate's comes between the flushes, and the driver is slow
        if queued_flushes and cover_ms:
            self.wait(cover_ms)
        for _ in range(max(1, queued_flushes)):
            self.flush_cache()
        if queued_flushes:
            self.hold_streams()
        else:
            self.synchronize()
        return self.time_ms(launch)

    @abstractmethod
    def free_bytes(self) -> int:
        """Device-wide free memory: also sees what other processes and raw allocations hold."""

    @abstractmethod
    def total_bytes(self) -> int: ...

    @abstractmethod
    def reset_peak(self) -> None: ...

    @abstractmethod
    def resume_peak(self, peak_bytes: int | None) -> None:
        """Count on as if the peak were this one: what happened since ``peak_bytes`` said so was another's matter."""

    @abstractmethod
    def peak_bytes(self) -> int | None:
        """Peak of this process since reset_peak: torch's allocator and shared buffers; None where nothing counts it."""

    @abstractmethod
    def allocated_bytes(self) -> int | None: ...

    @abstractmethod
    def release_cached(self) -> None:
        """Give memory that torch's allocator caches back to the device."""

    def fill_free_memory(self, sizes: list[int], byte: int) -> None:
        """Leave this byte everywhere in memory that the next allocations of these sizes (bytes) get."""
        return None

    def guarded_copy(self, tensor: torch.Tensor, guard_bytes: int, align_bytes: int, byte: int) -> torch.Tensor:
        """The same values where reading or writing beyond their end is an error, if the device can do that."""
        return tensor

    def part(self, whole: torch.Tensor, start: int, nbytes: int) -> torch.Tensor:
        """Some bytes (at least one) of a uint8 tensor, as a tensor whose storage ends with them."""
        return torch.from_numpy(whole.numpy()[start : start + nbytes])

    def reading(self) -> DeviceReading | None:
        """Clock, temperature, power and clock event reasons as the driver reports them now; None where none does."""
        return None

    def ramp_up(self) -> float | None:
        """Keep the device busy until its clock is up; seconds it took, None where there is no clock to wait for."""
        return None

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError | torch.OutOfMemoryError)

    def is_machines(self, error: BaseException) -> bool:
        """Whether an error of this process says nothing about the code that ran: no memory, or the device is lost."""
        return self.is_out_of_memory(error) or self.is_lost(error)

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error of this process is one of a device that is gone. Whatever is known after it is no result."""
        return isinstance(error, RuntimeError) and says_lost(str(error))
