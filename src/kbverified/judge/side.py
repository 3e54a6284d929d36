"""One worker under the clock: what it claims, what the judge's own clock says, how many launches a turn has."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from kbverified.digits import significant
from kbverified.judge.exchange import Exchange
from kbverified.judge.party import CandidateFailure, Party
from kbverified.judge.stage import Job
from kbverified.protocol import (
    FORWARD_SEED,
    TIMING_CLOCKS_AGREE_RATIO,
    TIMING_COVER_MS,
    TIMING_HOT_LAUNCHES_MAX,
    TIMING_HOT_MS,
    TIMING_LAUNCH_OVERHEAD_MS,
    TIMING_QUEUED_FLUSHES,
    TIMING_REPETITIONS_MAX,
    TIMING_ROUND_ROOM,
    TIMING_SHORTEST_MS,
    TIMING_TURN_MS,
    TIMING_WARMUP_BUDGET_MS,
    TIMING_WARMUP_CHUNK,
    TIMING_WARMUP_STABLE_RATIO,
)
from kbverified.records.timing import DeviceReading

# Half a turn is waited before the device is read, and never longer: how long a turn takes is the worker's claim.
_READING_WAIT_S = 0.02


class Side:
    """One worker under the clock."""

    def __init__(self, job: Job, party: Party):
        self.job = job
        self.party = party
        self.exchange = Exchange(job.device, party, job.audit, job.settings.dtype)
        self.repetitions = 1
        self.hot = 1
        """Untimed launches before a turn's repetitions."""
        self.launch_ms = 0.0
        """One launch with its cover and flush, as the pilot found it."""
        self.wall_ms = 0.0
        """The judge's own clock over the last message's launches."""
        self.turn_ms = 0.0
        self.host_bound: int | None = None
        """Of the last message's repetitions, those in which the device waited for the host, as the worker says."""

    def time(
        self, hot: int, repetitions: int, deliver: bool = False, read: bool = False
    ) -> tuple[list[float], DeviceReading | None]:
        """Milliseconds of each repetition, as the worker claims, and the device's state meanwhile if ``read``.

        Raises CandidateFailure.
        """
        message = {
            "do": "time",
            "hot": hot,
            "repetitions": repetitions,
            "forward_seed": FORWARD_SEED,
            "queued_flushes": TIMING_QUEUED_FLUSHES[self.job.settings.device],
            "cover_ms": TIMING_COVER_MS[self.job.settings.device],
            "deliver": deliver,
        }
        start = time.monotonic()
        self.party.post(message)
        reading = self._reading() if read else None
        reply = self.party.reply(self.limit_s(hot + repetitions))
        self.wall_ms = 1e3 * (time.monotonic() - start)
        said = reply.get("host_bound")
        on_gpu = self.job.settings.device == "cuda"
        self.host_bound = said if on_gpu and type(said) is int and 0 <= said <= repetitions else None
        return checked_times(reply.get("times_ms"), repetitions, self.wall_ms), reading

    def limit_s(self, launches: int) -> float:
        """How long an answer may take. One answer's limit, and room for launches as long as the pilot's.

        A limit for each launch would let one who claims a microsecond and sleeps keep the device for hours.
        """
        return self.party.timeout_s + TIMING_ROUND_ROOM * 1e-3 * self.launch_ms * launches

    def _reading(self) -> DeviceReading | None:
        """Read the device while the worker is at it: right after a turn its clock is an idle one again."""
        device = self.job.device
        if device.kind == "cuda":
            time.sleep(min(0.5e-3 * self.turn_ms, _READING_WAIT_S))
        return device.reading()

    def turn(self, deliver: bool) -> tuple[list[float], DeviceReading | None]:
        """This side's part of a round."""
        return self.time(self.hot, self.repetitions, deliver, read=True)

    def first_launch(self, meanwhile: Callable[[], Any]) -> None:
        """One launch that nobody times, and what this process does at the same time."""
        self.party.post({"do": "forward", "forward_seed": FORWARD_SEED})
        meanwhile()
        self.party.reply()

    def heat(self) -> None:
        """The launches that come before a turn's repetitions, alone."""
        self.time(self.hot, 0)

    def warm_up(self) -> float:
        """Launch until two medians in a row agree, or the budget is spent; milliseconds of one launch.

        A slow kernel is warm after two launches.
        """
        one_ms = self.time(0, 1)[0][0]
        overhead_ms = TIMING_LAUNCH_OVERHEAD_MS[self.job.settings.device]
        if one_ms > TIMING_WARMUP_BUDGET_MS:
            return self.time(0, 1)[0][0]
        chunk = max(1, min(TIMING_WARMUP_CHUNK, int(TIMING_WARMUP_BUDGET_MS / (one_ms + overhead_ms))))
        start = time.monotonic()
        while True:
            before_ms, one_ms = one_ms, statistics.median(self.time(0, chunk)[0])
            if abs(one_ms / before_ms - 1.0) <= TIMING_WARMUP_STABLE_RATIO:
                return one_ms
            if 1e3 * (time.monotonic() - start) > TIMING_WARMUP_BUDGET_MS:
                return one_ms

    def pilot(self) -> None:
        """Warm up, and size a turn: so many launches to make it hot, so many repetitions, never fewer than one."""
        kind = self.job.settings.device
        bare_ms = self.warm_up()
        self.launch_ms = bare_ms + TIMING_LAUNCH_OVERHEAD_MS[kind]
        self.repetitions = max(1, min(TIMING_REPETITIONS_MAX, int(TIMING_TURN_MS[kind] / self.launch_ms)))
        self.hot = max(1, min(TIMING_HOT_LAUNCHES_MAX, int(TIMING_HOT_MS[kind] / bare_ms)))
        if bare_ms > TIMING_WARMUP_BUDGET_MS:
            self.hot = 0
        self.turn_ms = self.launch_ms * self.repetitions + bare_ms * self.hot


def checked_times(claim: Any, count: int, wall_ms: float) -> list[float]:
    """A worker's list of times, if it is one and the judge's clock (``wall_ms``) has room for it.

    Raises CandidateFailure for anything else.
    """
    good = isinstance(claim, list) and len(claim) == count
    if not good or not all(isinstance(t, int | float) and not isinstance(t, bool) for t in claim):
        raise CandidateFailure("protocol_violation", f"expected {count} times, got {str(claim)[:120]}")
    # Each by itself first: integers may have thousands of digits, which no sum of floats takes.
    if not all(TIMING_SHORTEST_MS <= t <= TIMING_CLOCKS_AGREE_RATIO * wall_ms for t in claim):
        raise CandidateFailure(
            "protocol_violation", f"a time of 0 or longer than its message's {wall_ms:.1f} ms: {str(claim)[:120]}"
        )
    if sum(claim) > TIMING_CLOCKS_AGREE_RATIO * wall_ms:
        raise CandidateFailure("protocol_violation", f"{sum(claim):.1f} ms in launches of {wall_ms:.1f} ms in all")
    return [significant(t) for t in claim]
