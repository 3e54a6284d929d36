"""Rounds A B B A of baseline and candidate: how many, with which inputs, what is dropped, and when there is no time.

A round is one draw of inputs and a turn of each side. Ten rounds are the pilot; their spread decides how many there
will be, never their ratio, and nothing stops at a good moment.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal

from kbverified import layout, precision
from kbverified.correctness import compare_all
from kbverified.judge.inputs import secret_seed
from kbverified.judge.party import machines_fault
from kbverified.judge.reference import Reference
from kbverified.judge.side import Side
from kbverified.protocol import (
    STANDARD_DISTRIBUTION,
    TIMED_OUTPUT_ARITHMETIC_MARGIN,
    TIMED_OUTPUT_REPLAY_FLOOR,
    TIMED_OUTPUT_REPLAY_RATIO,
    TIMED_OUTPUT_RMS_LIMIT,
    TIMED_OUTPUTS_VERIFIED,
    TIMING_CONFIDENCE,
    TIMING_DROP_REASONS,
    TIMING_ROUNDS_LEFT_MIN,
    TIMING_ROUNDS_MAX,
    TIMING_ROUNDS_MIN,
    TIMING_ROUNDS_SLOW,
    TIMING_TARGET_HALF_WIDTH,
    TIMING_TOTAL_BUDGET_S,
    TIMING_UNSTABLE_HALF_WIDTH,
)
from kbverified.records.timing import DeviceReading, Round
from kbverified.round_statistics import paired_ratio

_BASELINE_FAILED = "the baseline failed"


class Trace:
    """What the rounds left behind."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self.verified: list[Any] = []
        """One comparison per round whose output was verified."""
        self.walls_ms: list[float] = []
        """The judge's clock over each of the candidate's turns, per launch."""
        self.serve_ms: list[float] = []
        """What the judge took to draw and write the inputs of a round, and to compare an output."""
        self.compare_ms: list[float] = []
        self.limit = TIMED_OUTPUT_RMS_LIMIT
        """Relative rms error beyond which an output is wrong."""

    def kept(self) -> list[Round]:
        return [r for r in self.rounds if not r.dropped]

    def baseline_ms(self) -> float:
        """Median of the baseline's repetitions (ms)."""
        return statistics.median(t for r in self.kept() or self.rounds for t in r.baseline_ms)

    def candidate_ms(self) -> float:
        """Median of the candidate's repetitions (ms): its claim."""
        return statistics.median(t for r in self.kept() or self.rounds for t in r.candidate_ms)

    def half_width(self) -> float | None:
        """Of the ratio's interval, relative; None for too few rounds."""
        return half_width(self.kept())


def baseline(action: Callable[[], Any]) -> Any:
    """The baseline is trusted code: its failure is the machine's, never the candidate's."""
    with machines_fault(_BASELINE_FAILED):
        return action()


def run_rounds(reference: Reference, a: Side, b: Side, trace: Trace, budget_s: float) -> None:
    """A B B A: whoever went last goes first in the next round, so that a drift meets both sides alike."""
    least = least_rounds(a.turn_ms + b.turn_ms)
    if least == TIMING_ROUNDS_MIN:
        _unrecorded_round(reference, a, b)
    start = time.monotonic()
    _rounds(reference, a, b, trace, 0, least)
    round_s = (time.monotonic() - start) / least
    width = trace.half_width()
    excess = None if width is None else width / TIMING_TARGET_HALF_WIDTH[b.job.settings.device]
    _rounds(reference, a, b, trace, least, planned_rounds(excess, least, round_s, budget_s))


def _unrecorded_round(reference: Reference, a: Side, b: Side) -> None:
    """Meets what only a first round has, such as buffers mapped a moment ago: the baseline's first launch of a 6 GB
    ReLU took 3.38 ms and every other 3.03 (H200, 2026-11-30), and one outlier of ten doubles an interval's rounds."""
    inputs = redraw(reference)
    with machines_fault(_BASELINE_FAILED):
        a.exchange.offer(inputs)
    b.exchange.offer(inputs)
    baseline(lambda: a.turn(False))
    b.turn(True)


def _rounds(reference: Reference, a: Side, b: Side, trace: Trace, first: int, end: int) -> None:
    verified = {first + index for index in verified_rounds(end - first)}
    for index in range(first, end):
        start = time.monotonic()
        inputs = redraw(reference)
        with machines_fault(_BASELINE_FAILED):
            a.exchange.offer(inputs)
        b.exchange.offer(inputs)
        trace.serve_ms.append(1e3 * (time.monotonic() - start))
        candidate_leads = index % 2 == 1
        if candidate_leads:
            candidate = timed_turn(b, trace)
        base = baseline(lambda: a.turn(False))
        if not candidate_leads:
            candidate = timed_turn(b, trace)
        made = round_of("candidate" if candidate_leads else "baseline", base, candidate)
        waits = {"baseline_host_bound": a.host_bound, "candidate_host_bound": b.host_bound}
        trace.rounds.append(made.model_copy(update=waits))
        if index in verified:
            trace.verified.append(verify(b, reference, inputs, trace))
        del inputs


Turn = tuple[list[float], DeviceReading | None]


def round_of(first: Literal["baseline", "candidate"], base: Turn, candidate: Turn) -> Round:
    """A round's record; dropped where either side ran throttled."""
    reasons = [reading.throttle_reasons or 0 for _, reading in (base, candidate) if reading is not None]
    return Round(
        first=first,
        baseline_ms=tuple(base[0]),
        candidate_ms=tuple(candidate[0]),
        baseline_reading=base[1],
        candidate_reading=candidate[1],
        dropped=any(reason & TIMING_DROP_REASONS for reason in reasons),
    )


def run_alone(reference: Reference, side: Side, count: int, trace: Trace | None = None) -> list[Turn]:
    """All turns of one side, where both do not fit the device together; of the candidate's, some are verified."""
    verified = verified_rounds(count)
    turns = []
    for index in range(count):
        inputs = redraw(reference)
        side.exchange.offer(inputs)
        turns.append(side.turn(False) if trace is None else timed_turn(side, trace))
        if trace is not None and index in verified:
            trace.verified.append(verify(side, reference, inputs, trace))
    return turns


def timed_turn(side: Side, trace: Trace) -> Turn:
    """One turn of the candidate, with the judge's own clock beside it. Every one delivers: none can tell which."""
    turn = side.turn(True)
    trace.walls_ms.append(side.wall_ms / (side.repetitions + side.hot))
    return turn


# --- how many -----------------------------------------------------------------------------------------------


def least_rounds(round_ms: float) -> int:
    """Ten, or fewer for kernels so slow that ten exceed the total budget."""
    fits = TIMING_ROUNDS_MIN * round_ms <= 1e3 * TIMING_TOTAL_BUDGET_S
    return TIMING_ROUNDS_MIN if fits else min(TIMING_ROUNDS_SLOW, TIMING_ROUNDS_MIN)


def planned_rounds(excess: float | None, pilot: int, round_s: float, budget_s: float) -> int:
    """Rounds in all, the pilot's included, at which the interval should reach its target: it narrows as 1/sqrt(n).

    ``excess``: the half-width after the pilot over its target; None where the pilot has no interval.

    At least the pilot's, at most what the budget (by the judge's clock) and TIMING_ROUNDS_MAX allow. The ratio itself
    has no say, so that counting the pilot's rounds in does no harm (Stein, Ann. Math. Stat. 16(3), 1945).
    """
    affordable = min(TIMING_ROUNDS_MAX, int(budget_s / max(round_s, 1e-6)))
    if excess is None:
        return max(pilot, affordable)
    needed = math.ceil(pilot * min(excess, 1e6) ** 2)
    return max(pilot, min(needed, affordable))


def verified_rounds(count: int) -> set[int]:
    """Which of some rounds have an output verified: drawn from the system's entropy, known to the judge alone."""
    return set(secrets.SystemRandom().sample(range(count), min(count, TIMED_OUTPUTS_VERIFIED)))


# --- whether there is a time --------------------------------------------------------------------------------


def half_width(rounds: list[Round]) -> float | None:
    """Half the width of the ratio's interval over these rounds, relative to the ratio; None for too few rounds."""
    ratio, interval = paired_ratio([r.baseline_ms for r in rounds], [r.candidate_ms for r in rounds], TIMING_CONFIDENCE)
    return (interval.high - interval.low) / (2.0 * ratio) if ratio is not None and interval is not None else None


def why_unstable(rounds: list[Round], kind: str) -> str | None:
    """Why these rounds give no time; None where they do."""
    kept = [r for r in rounds if not r.dropped]
    if len(kept) < min(TIMING_ROUNDS_LEFT_MIN, TIMING_ROUNDS_MIN):
        return f"{len(kept)} of {len(rounds)} rounds are left: the others ran throttled"
    width = half_width(kept)
    limit = TIMING_UNSTABLE_HALF_WIDTH[kind]
    if width is not None and width > limit:
        known = f"after {len(kept)} rounds the ratio is known to {100 * width:.1f} % only, more than {100 * limit:g} %"
        waits = {side: host_bound_share(kept, side) for side in ("baseline", "candidate")}
        told = " and ".join(
            f"{100 * share:.0f} % of the {side}'s launches" for side, share in waits.items() if share > 0.1
        )
        return f"{known}; the device waits for the host in {told}" if told else known
    return None


def host_bound_share(rounds: list[Round], side: str) -> float:
    """Share of a side's repetitions in which the device waited for the host; 0 where nothing is known of it."""
    known = [(getattr(r, f"{side}_host_bound"), len(getattr(r, f"{side}_ms"))) for r in rounds]
    told = [(bound, count) for bound, count in known if bound is not None]
    return sum(bound for bound, _ in told) / max(sum(count for _, count in told), 1)


# --- inputs and outputs -------------------------------------------------------------------------------------


def redraw(reference: Reference) -> Any:
    """Fresh inputs from a secret seed: a cached answer is a wrong answer."""
    return reference.draw(STANDARD_DISTRIBUTION, secret_seed())


def output_limit(reference: Reference, mode: str, gate_error: float | None) -> float:
    """The relative rms error beyond which a timed output of this candidate is wrong: the least of three.

    - TIMED_OUTPUT_RMS_LIMIT.
    - What its arithmetic explains, with room: its own error in the gate (``gate_error``, None where it is not known)
      and the reference's in this mode against ieee. A kernel that is exact in the gate may not be coarse on the clock.
    - Half the way to another input's output: outputs that hardly depend on the input would let one kept answer pass
      for all.
    """
    inputs = redraw(reference)
    own = layout.leaves(reference.forward(inputs))
    limits = [TIMED_OUTPUT_RMS_LIMIT]
    if gate_error is not None:
        explained = gate_error + _mode_error(reference, inputs, own, mode)
        limits.append(TIMED_OUTPUT_ARITHMETIC_MARGIN * explained + TIMED_OUTPUT_REPLAY_FLOOR)
    away = compare_all(layout.leaves(reference.forward(redraw(reference))), own).rms_relative_error
    if away is not None and away > TIMED_OUTPUT_REPLAY_FLOOR:
        limits.append(max(TIMED_OUTPUT_REPLAY_FLOOR, TIMED_OUTPUT_REPLAY_RATIO * away))
    return min(limits)


def _mode_error(reference: Reference, inputs: Any, own: list[Any], mode: str) -> float:
    """How far the reference itself is off in this mode: relative rms error against ieee, on the same inputs."""
    if mode == "ieee":
        return 0.0
    precision.set_mode("ieee")
    try:
        exact = layout.leaves(reference.forward(inputs))
    finally:
        precision.set_mode(mode)
    return compare_all(own, exact).rms_relative_error or 0.0


def verify(side: Side, reference: Reference, inputs: Any, trace: Trace) -> Any:
    """Compare the output of the last timed launch with the reference on the judge's own draw."""
    start = time.monotonic()
    answers = side.exchange.take()
    expected = layout.leaves(reference.forward(inputs))
    found = compare_all(answers, expected)
    trace.compare_ms.append(1e3 * (time.monotonic() - start))
    return found
