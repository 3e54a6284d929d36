"""Clock readings through NVML (package nvidia-ml-py). Nothing is ever set here."""

from __future__ import annotations

from typing import Any


class Nvml:
    """Reads one GPU. Where NVML or the GPU cannot be reached every reading is None."""

    def __init__(self, uuid: str | None):
        self.max_sm_clock_mhz = 0
        self._library: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else pynvml.nvmlDeviceGetHandleByIndex(0)
            self.max_sm_clock_mhz = int(pynvml.nvmlDeviceGetMaxClockInfo(self._handle, pynvml.NVML_CLOCK_SM))
            self._library = pynvml
        except Exception:  # no package, no driver, a virtual GPU that answers nothing: no reading
            pass

    def clocks(self) -> tuple[int | None, int | None]:
        """(SM clock in MHz, NVML's bit mask of clock event reasons)."""
        if self._library is None:
            return None, None
        nvml = self._library
        try:
            clock_mhz = int(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM))
            reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))
        except nvml.NVMLError:
            return None, None
        return clock_mhz, reasons
