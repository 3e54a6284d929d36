"""time-fp32, time-tf32: baseline and candidate, each in its own fresh process under the same mode, on one device.

First the baseline alone, then rounds A B B A: only one side has work on the device at a time. Inputs are redrawn
from a secret seed before every round. Raw repetitions are kept; every summary is derived from them later.
"""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Any, Literal

from kbverified import layout
from kbverified.correctness import combine, compare_all
from kbverified.judge.exchange import Exchange
from kbverified.judge.flags import flag_state, flags_now
from kbverified.judge.inputs import needed_bytes, secret_seed
from kbverified.judge.loose import loose_verdict
from kbverified.judge.party import CandidateFailure, Party, machines_fault
from kbverified.judge.reference import Reference
from kbverified.judge.stage import Job
from kbverified.protocol import (
    BASELINE_DISTURBED_RATIO,
    FORWARD_SEED,
    STANDARD_DISTRIBUTION,
    TIMED_OUTPUTS_VERIFIED,
    TIMING_CLOCKS_AGREE_RATIO,
    TIMING_DISCARD_AFTER_HANDOVER,
    TIMING_LAUNCH_OVERHEAD_MS,
    TIMING_REPETITIONS_MAX,
    TIMING_ROUND_BUDGET_MS,
    TIMING_ROUND_ROOM,
    TIMING_ROUNDS,
    TIMING_ROUNDS_MIN,
    TIMING_SHORTEST_MS,
    TIMING_SIGNIFICANT_DIGITS,
    TIMING_TOTAL_BUDGET_S,
    TIMING_WARMUP_LAUNCHES,
)
from kbverified.records import Round


class Side:
    """One worker under the clock."""

    def __init__(self, job: Job, party: Party):
        self.job = job
        self.party = party
        self.exchange = Exchange(job.device, party, job.audit, job.settings.dtype)
        self.repetitions = 1
        self.discard = TIMING_DISCARD_AFTER_HANDOVER
        self.launch_ms = 0.0
        self.wall_ms = 0.0
        """The judge's own clock over the last message's launches."""
        self.round_ms = 0.0

    def time(self, discard: int, repetitions: int, deliver: bool = False) -> list[float]:
        """Milliseconds of each repetition, as the worker claims. Raises CandidateFailure."""
        message = {
            "do": "time",
            "discard": discard,
            "repetitions": repetitions,
            "forward_seed": FORWARD_SEED,
            "deliver": deliver,
        }
        # One answer's limit, and room for launches as long as the pilot's: a limit for each launch would let one who
        # claims a microsecond and sleeps keep the device for hours.
        limit = self.party.timeout_s + TIMING_ROUND_ROOM * 1e-3 * self.launch_ms * (discard + repetitions)
        start = time.monotonic()
        claim = self.party.ask(message, timeout_s=limit).get("times_ms")
        self.wall_ms = 1e3 * (time.monotonic() - start)
        return checked_times(claim, repetitions, self.wall_ms)

    def round(self, deliver: bool) -> list[float]:
        return self.time(self.discard, self.repetitions, deliver)

    def pilot(self) -> None:
        """Warm up, and size one round's repetitions to the budget. A slow kernel is warm after two launches."""
        first_ms = self.time(0, 1)[0]
        more = TIMING_WARMUP_LAUNCHES - 1 if first_ms < TIMING_ROUND_BUDGET_MS else 0
        one_ms = self.time(more, 1)[0] + TIMING_LAUNCH_OVERHEAD_MS[self.job.settings.device]
        self.repetitions = max(1, min(TIMING_REPETITIONS_MAX, int(TIMING_ROUND_BUDGET_MS / one_ms)))
        if one_ms > TIMING_ROUND_BUDGET_MS:
            self.discard = 0
        self.launch_ms = one_ms
        self.round_ms = one_ms * (self.repetitions + self.discard)


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
    return [float(f"{t:.{TIMING_SIGNIFICANT_DIGITS}g}") for t in claim]


def run(job: Job) -> dict[str, Any]:
    """Time one candidate against its baseline; returns the fields of its record. Raises InfrastructureFault."""
    reference = Reference(job.problem, job.settings.dtype)
    with job.on_device() as device:
        _baseline(lambda: job.await_model(job.baseline))
        job.await_open(job.party)
        job.lap("baseline")
        reference.place(device)
        job.preflight(needed_bytes(job.audit, copies_of_buffers=3, models=2))
        interleaved = needed_bytes(job.audit, copies_of_buffers=4, models=3) < device.free_bytes()
        a, b = Side(job, job.baseline), Side(job, job.party)
        try:
            with job.memory_is_the_candidates():
                fields = _measure(job, reference, a, b, interleaved)
        except CandidateFailure as failure:
            failure = job.blame(failure)
            fields = {"verdict": failure.verdict, "detail": failure.detail}
        finally:
            a.exchange.close()
            b.exchange.close()
        return {**fields, "interleaved": interleaved, "output_tail": job.party.worker.output_tail()}


def _baseline(action: Any) -> Any:
    """The baseline is trusted code: its failure is the machine's, never the candidate's."""
    with machines_fault("the baseline failed"):
        return action()


def _measure(job: Job, reference: Reference, a: Side, b: Side, interleaved: bool) -> dict[str, Any]:
    ramp_s = job.device.ramp_up()
    job.lap("place")
    inputs = _redraw(reference)
    _baseline(lambda: a.exchange.offer(inputs))
    _baseline(a.pilot)
    alone = _baseline(lambda: a.time(a.discard, max(a.repetitions, 5)))
    trace = _Trace()
    if not interleaved:
        _baseline(lambda: _run_alone(reference, a, round_count(2 * a.round_ms), trace.baseline))
        a.exchange.close()
        a.party.close()
    job.lap("baseline alone")
    job.model(b.party)
    job.lap("candidate")
    b.exchange.offer(inputs)
    b.pilot()
    inputs = None
    job.lap("pilot")
    if interleaved:
        _run_rounds(reference, a, b, trace)
    else:
        _run_alone(reference, b, len(trace.baseline), trace.candidate, trace)
    job.lap("rounds")
    return {**trace.fields(alone, b), "ramp_s": ramp_s, "reserved_cores": len(job.cores) if job.cores else None}


class _Trace:
    """What the rounds left behind."""

    def __init__(self) -> None:
        self.baseline: list[list[float]] = []
        self.candidate: list[list[float]] = []
        self.clocks: list[tuple[int | None, int | None]] = []
        self.first: list[Literal["baseline", "candidate"]] = []
        self.verified: list[Any] = []
        self.walls: list[float] = []

    def fields(self, alone: list[float], b: Side) -> dict[str, Any]:
        first = self.first or ["baseline"] * len(self.baseline)
        clocks = self.clocks or [(None, None)] * len(self.baseline)
        rounds = [
            Round(
                first=f, baseline_ms=tuple(x), candidate_ms=tuple(y), sm_clock_mhz=clock[0], throttle_reasons=clock[1]
            )
            for f, x, y, clock in zip(first, self.baseline, self.candidate, clocks, strict=True)
        ]
        worst = combine(self.verified)
        return {
            **loose_verdict(worst),
            "rounds": tuple(rounds),
            "baseline_alone_ms": tuple(alone),
            "baseline_disturbed": _disturbed(alone, rounds),
            "outputs_verified": len(self.verified),
            "timed_critical_tolerance": worst.critical_tolerance,
            "flags_before": flag_state(b.party.flags),
            "flags_after": flags_now(b.party),
            "judge_wall_ms_per_launch": statistics.median(self.walls),
        }


def _run_rounds(reference: Reference, a: Side, b: Side, trace: _Trace) -> None:
    """A B B A: whoever went last goes first in the next round, so that a drift meets both sides alike."""
    count = round_count(a.round_ms + b.round_ms)
    verified = verified_rounds(count)
    for index in range(count):
        inputs = _redraw(reference)
        _baseline(lambda inputs=inputs: a.exchange.offer(inputs))
        b.exchange.offer(inputs)
        for side in (a, b) if index % 2 == 0 else (b, a):
            if side is a:
                trace.baseline.append(_baseline(lambda: a.round(False)))
            else:
                trace.candidate.append(_timed_round(b, trace))
        trace.clocks.append(b.job.device.clocks())
        if index in verified:
            trace.verified.append(_verify(b, reference, inputs))
        del inputs
        trace.first.append("baseline" if index % 2 == 0 else "candidate")


def _run_alone(
    reference: Reference, side: Side, count: int, times: list[list[float]], trace: _Trace | None = None
) -> None:
    """All rounds of one side, where both do not fit the device together."""
    verified = verified_rounds(count)
    for index in range(count):
        inputs = _redraw(reference)
        side.exchange.offer(inputs)
        times.append(_timed_round(side, trace) if trace else side.round(False))
        if trace is not None and index in verified:
            trace.verified.append(_verify(side, reference, inputs))


def verified_rounds(count: int) -> set[int]:
    """Which rounds have an output verified: drawn from the system's entropy, known to the judge alone."""
    return set(secrets.SystemRandom().sample(range(count), min(count, TIMED_OUTPUTS_VERIFIED)))


def _timed_round(side: Side, trace: _Trace) -> list[float]:
    """One round of the candidate, with the judge's own clock beside it."""
    times = side.round(True)
    trace.walls.append(side.wall_ms / (side.repetitions + side.discard))
    return times


def round_count(round_ms: float) -> int:
    """Rounds that the total budget allows, fixed before they start: between the least and the usual number."""
    fitting = int(1e3 * TIMING_TOTAL_BUDGET_S / max(round_ms, 1e-6))
    return max(TIMING_ROUNDS_MIN, min(TIMING_ROUNDS, fitting))


def _redraw(reference: Reference) -> Any:
    """Fresh inputs from a secret seed: a cached answer is a wrong answer."""
    return reference.draw(STANDARD_DISTRIBUTION, secret_seed())


def _verify(side: Side, reference: Reference, inputs: Any) -> Any:
    """Compare the output of the last timed launch with the reference on the judge's own draw."""
    answers = side.exchange.take()
    expected = layout.leaves(reference.forward(inputs))
    return compare_all(answers, expected)


def _disturbed(alone: list[float], rounds: list[Round]) -> bool:
    together = statistics.median(t for r in rounds for t in r.baseline_ms)
    return abs(together / statistics.median(alone) - 1.0) > BASELINE_DISTURBED_RATIO
