"""Two ways to start a launch's clock: their order of calls, and what processes' medians come to."""

from __future__ import annotations

import math

import pytest

from benchmarks.start_event import rows, text
from kbverified.devices.cpu import CpuDevice


class Told(CpuDevice):
    """Says in which order it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def flush_cache(self) -> None:
        self.calls.append("flush")

    def wait(self, duration_ms):
        self.calls.append(f"wait {duration_ms}")

    def hold_streams(self):
        self.calls.append("hold")

    def time_ms(self, launch):
        self.calls.append("clock")
        return super().time_ms(launch)


@pytest.mark.parametrize(
    ("flushes", "cover_ms", "order"),
    [
        (0, 0.0, ["flush", "synchronize", "clock"]),
        (0, 0.5, ["flush", "synchronize", "clock"]),
        (2, 0.0, ["synchronize", "flush", "flush", "hold", "clock"]),
        (1, 0.5, ["synchronize", "wait 0.5", "flush", "hold", "clock"]),
    ],
)
def test_what_is_queued_before_a_launch_is_not_waited_for_and_holds_every_stream(flushes, cover_ms, order):
    device = Told()
    time_ms, result = device.time_cold_ms(lambda: "result", flushes, cover_ms)
    assert (device.calls, result) == (order, "result")
    assert time_ms > 0


def test_rows_hold_the_spread_between_processes():
    found = [{"s/a": {"idle": 1.0 * 1.1**k, "queued": 2.0, "covered": 3.0}} for k in (0, 1, 0, 1)]
    idle, queued, covered = rows(found)
    assert (idle.problem, idle.variant, queued.variant) == ("s/a", "idle", "queued")
    assert idle.sd == pytest.approx(math.log(1.1) / math.sqrt(3))
    assert idle.furthest_ratio == pytest.approx(1 / 1.1)
    assert (queued.sd, queued.furthest_ratio, queued.median_ms, covered.median_ms) == (0.0, 1.0, 2.0, 3.0)
    shown = text([idle, queued]).splitlines()
    assert "0.9091" in text([idle, queued]) and len(shown) >= 6
