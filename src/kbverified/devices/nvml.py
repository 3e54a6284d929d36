"""Clock, temperature, power and throttling through NVML (package nvidia-ml-py). Nothing is ever set here."""

from __future__ import annotations

import functools
from typing import Any

from kbverified.records.timing import DeviceReading


@functools.cache
def of(uuid: str | None) -> Nvml:
    """The readings of one GPU, of the first where it is not named. NVML starts when this process first asks for them:
    a judge does so before it holds the GPU, and a worker never."""
    return Nvml(uuid)


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

    def sm_clock_mhz(self) -> int | None:
        return self._ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")

    def reading(self) -> DeviceReading | None:
        """What the driver says now. None without NVML; a field is None where it does not answer that question."""
        if self._library is None:
            return None
        power_mw = self._ask("nvmlDeviceGetPowerUsage")
        return DeviceReading(
            sm_clock_mhz=self.sm_clock_mhz(),
            temperature_c=self._ask("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            power_w=None if power_mw is None else power_mw / 1e3,
            throttle_reasons=self._ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        )

    def _ask(self, function: str, *constants: str) -> int | None:
        if self._library is None:
            return None
        try:
            arguments = [getattr(self._library, name) for name in constants]
            return int(getattr(self._library, function)(self._handle, *arguments))
        except (self._library.NVMLError, AttributeError):  # not supported here, or a package without that name
            return None
