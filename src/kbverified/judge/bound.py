"""The judge's bound: a batch of distinct inputs, launched under the judge's own clock, every output verified.

A worker times itself, so its times are claims. Here nothing of it is believed: the clock of each launch starts before
its input is visible to the worker and stops when its output is in private memory, and every one of them is right. The
same batch by the trusted baseline's worker says how much of such a wall is not the launch:

    t_judge = median wall of the candidate - median of (wall of the baseline - its launch by its own events)

over the K launches of a batch: no launch can be made in another's time, so that any of them is a bound, and the middle
one is the one that least else disturbs. A claim is not disputed by less than this clock can tell, ``noise_ms``.

The baseline's first batch is made before any code of the candidate's runs: nobody can make that one slow.

What caches, computes in the last launch only, or has bent its clock does K launches here all the same.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kbverified import layout
from kbverified.correctness import combine, compare_all
from kbverified.digits import significant
from kbverified.judge.exchange import input_plan
from kbverified.judge.loose import loose_verdict
from kbverified.judge.party import CandidateFailure
from kbverified.judge.reference import Reference
from kbverified.judge.rounds import Trace, baseline, redraw
from kbverified.judge.side import Side, checked_times
from kbverified.protocol import (
    FORWARD_SEED,
    TIMING_BATCH_BUDGET_MS,
    TIMING_BATCH_MAX,
    TIMING_BATCH_MEMORY_SHARE,
    TIMING_BATCH_QUEUED_FLUSHES,
    TIMING_BATCHES_MAX,
    TIMING_BATCHES_MIN,
    TIMING_BOUND_AGREE_RATIO,
    TIMING_BOUND_DRIFT_MAX,
    TIMING_BOUND_ENFORCED_ABOVE_MS,
    TIMING_BOUND_RESOLUTION,
    TIMING_LAUNCH_OVERHEAD_MS,
    TIMING_SPIN_S,
)
from kbverified.records.timing import JudgeBound


@dataclass(frozen=True)
class Batch:
    """One batch of one side: of each launch the judge's wall and the worker's own time, in milliseconds."""

    walls_ms: tuple[float, ...]
    launches_ms: tuple[float, ...]
    """By the worker's clock: only the baseline's is believed."""
    comparisons: tuple[Any, ...] = ()

    @property
    def count(self) -> int:
        return len(self.walls_ms)

    def wall_ms(self) -> float:
        return statistics.median(self.walls_ms)

    def launch_ms(self) -> float:
        return statistics.median(self.launches_ms)

    def overheads_ms(self) -> list[float]:
        """What each launch costs beside itself."""
        return [wall - launch for wall, launch in zip(self.walls_ms, self.launches_ms, strict=True)]


@dataclass
class Bound:
    """The batches of one candidate and what follows from them."""

    kind: str
    baseline_ms: float
    """The baseline in its rounds."""
    claim_ms: float
    base: list[Batch] = field(default_factory=list)
    candidate: list[Batch] = field(default_factory=list)

    def t_judge_ms(self) -> float:
        """One launch of the candidate by the judge's clock (ms), less what the baseline shows to be overhead.

        Of both the smallest over the batches: what disturbs a batch only ever makes it longer. Not below 0: overhead is
        noisy, and a launch of microseconds can vanish in it.
        """
        return max(self.wall_ms() - self.overhead_ms(), 0.0)

    def overhead_ms(self) -> float:
        """What a launch costs beside itself, by the baseline's batches: the smallest of their medians."""
        return min(statistics.median(batch.overheads_ms()) for batch in self.base)

    def wall_ms(self) -> float:
        """A launch of the candidate: the smallest of its batches' medians."""
        return min(batch.wall_ms() for batch in self.candidate)

    def noise_ms(self) -> float:
        """What a launch's wall can tell on this machine now, by the baseline's first batch, which no candidate can have
        disturbed: a share of the overhead, by which alike workers differ, or the quartile distance of the overheads if
        that is more. A quartile takes four launches.
        """
        overheads_ms = self.base[0].overheads_ms()
        share_ms = TIMING_BOUND_RESOLUTION[self.kind] * statistics.median(overheads_ms)
        if len(overheads_ms) < 4:
            return share_ms
        low, _, high = statistics.quantiles(overheads_ms, n=4)
        return max(share_ms, high - low)

    def drift(self) -> float:
        """How much slower the trusted baseline's launches are in a batch than in its rounds: 1 to the allowed most."""
        slower = min(batch.launch_ms() for batch in self.base) / self.baseline_ms
        return min(max(slower, 1.0), TIMING_BOUND_DRIFT_MAX[self.kind])

    def outcome(self) -> str:
        t_ms = self.t_judge_ms()
        if t_ms <= TIMING_BOUND_ENFORCED_ABOVE_MS[self.kind]:
            return "not_enforced"
        allowed_ms = self.claim_ms * self.drift()
        agreed = allowed_ms >= TIMING_BOUND_AGREE_RATIO[self.kind] * t_ms or t_ms - allowed_ms <= self.noise_ms()
        return "agreed" if agreed else "disputed"

    def settled(self) -> bool:
        """Whether another batch would change nothing, or there have been enough: a claim of microseconds makes large
        batches of what takes seconds.
        """
        spent_ms = sum(sum(batch.walls_ms) for batch in (*self.base, *self.candidate))
        if spent_ms > 2 * TIMING_BATCHES_MAX * TIMING_BATCH_BUDGET_MS:
            return True
        enough = {"agreed": 1, "not_enforced": TIMING_BATCHES_MIN, "disputed": TIMING_BATCHES_MAX}
        return len(self.candidate) >= enough[self.outcome()]

    def record(self) -> JudgeBound:
        return JudgeBound(
            outcome=self.outcome(),  # type: ignore[arg-type]
            k=self.candidate[0].count,
            batches=len(self.candidate),
            baseline_k=tuple(batch.count for batch in self.base),
            baseline_wall_ms=tuple(significant(sum(batch.walls_ms)) for batch in self.base),
            baseline_launches_ms=tuple(significant(sum(batch.launches_ms)) for batch in self.base),
            candidate_wall_ms=tuple(significant(sum(batch.walls_ms)) for batch in self.candidate),
            baseline_overhead_ms=tuple(significant(statistics.median(batch.overheads_ms())) for batch in self.base),
            candidate_launch_wall_ms=tuple(significant(batch.wall_ms()) for batch in self.candidate),
            noise_ms=significant(self.noise_ms()),
            claim_ms=significant(self.claim_ms),
            t_judge_ms=significant(self.t_judge_ms()),
            drift=significant(self.drift()),
            undetected_gain_at_most=significant(max(self.wall_ms() / self.claim_ms, 1.0)),
        )


class LayoutVaries(Exception):
    """The problem's inputs have another layout in every draw."""

    def __init__(self) -> None:
        super().__init__("the problem's inputs have another layout in every draw: no batch of them can be made")


def baseline_alone(reference: Reference, a: Side, trace: Trace) -> Batch | None:
    """The baseline's first batch, for which no code of the candidate's may have run yet; None where none can be made.

    How many inputs it has depends on the baseline alone.
    """
    start = time.monotonic()
    a.exchange.offer(redraw(reference))
    trace.serve_ms.append(1e3 * (time.monotonic() - start))
    count = batch_size(a, trace, 2 * a.launch_ms)
    prepare(a, reference, count)
    try:
        return run_batch(a, [redraw(reference) for _ in range(count)])
    except LayoutVaries:
        return None
    finally:
        a.exchange.resize(1)
        a.job.device.release_cached()


def measure(reference: Reference, a: Side | None, b: Side, trace: Trace, first: Batch | None) -> tuple[JudgeBound, Any]:
    """Batches of the candidate, and more of the baseline where ``a`` is still there, until ``Bound.settled``.

    ``first``: the baseline's batch from before the candidate started. Returns what is bounded and the worst of all
    comparisons, None where nothing was compared. Raises CandidateFailure.
    """
    if first is None:
        return JudgeBound(outcome="not_measured", detail=str(LayoutVaries())), None
    count = min(batch_size(b, trace, _launches_ms(b, trace)), first.count)
    bound = Bound(b.job.settings.device, trace.baseline_ms(), trace.candidate_ms(), base=[first])
    comparisons: list[Any] = []
    prepare(b, reference, count)
    try:
        while True:
            drawn = [redraw(reference) for _ in range(count)]
            if a is not None and bound.candidate:
                bound.base.append(baseline(partial(_base_batch, reference, a, drawn)))
            bound.candidate.append(run_batch(b, drawn, reference))
            comparisons += bound.candidate[-1].comparisons
            outputs = loose_verdict(combine(comparisons), limit=trace.limit)
            if outputs["verdict"] != "pass" or bound.settled():
                break
    except LayoutVaries as reason:
        return JudgeBound(outcome="not_measured", detail=str(reason)), combine(comparisons) if comparisons else None
    return bound.record(), combine(comparisons)


def _base_batch(reference: Reference, a: Side, drawn: list[Any]) -> Batch:
    prepare(a, reference, len(drawn))
    return run_batch(a, drawn)


def _launches_ms(side: Side, trace: Trace) -> float:
    """One launch of each side with what comes before it, by the rounds: a pilot that claims to be slow makes no batch
    small, for such a claim in the rounds would cost the candidate its speedup.
    """
    overhead_ms = TIMING_LAUNCH_OVERHEAD_MS[side.job.settings.device]
    return trace.baseline_ms() + trace.candidate_ms() + 2 * overhead_ms


def batch_size(side: Side, trace: Trace, launches_ms: float) -> int:
    """K: as many distinct inputs as free memory and the time for a pair of batches allow, 1 to TIMING_BATCH_MAX.

    Per input there are two shared and two private sets of inputs and outputs; the rounds' own are given up before.
    """
    device = side.job.device
    device.release_cached()
    one_bytes = 4 * (side.exchange.in_bytes + side.exchange.out_bytes)
    fitting = int(TIMING_BATCH_MEMORY_SHARE * device.free_bytes() / max(one_bytes, 1))
    serving_ms = 2 * _median(trace.serve_ms) + _median(trace.compare_ms)
    affordable = int(TIMING_BATCH_BUDGET_MS / max(launches_ms + serving_ms, 1e-3))
    return max(1, min(TIMING_BATCH_MAX, fitting, affordable))


def prepare(side: Side, reference: Reference, count: int) -> None:
    """Buffers for a batch, mapped before it starts; they hold a draw that no batch will use. Raises MemoryError."""
    if side.exchange.copies != count or side.exchange.inputs is None:
        side.exchange.resize(count)
    side.exchange.offer(redraw(reference))


def run_batch(side: Side, drawn: list[Any], reference: Reference | None = None) -> Batch:
    """One batch on inputs that the worker has not seen; its outputs are compared where there is a reference.

    An input is shown when the output for the one before is in private memory: shown together, they could be answered
    by one launch, and one that reads a large matrix costs the same for all of them. Raises CandidateFailure.
    """
    if any(input_plan(inputs)[0] != side.exchange.in_slots for inputs in drawn):
        raise LayoutVaries
    answers = side.exchange.private_outputs()
    side.exchange.poison_outputs()
    side.heat()
    side.job.device.synchronize()
    walls_ms, launches_ms, strides = [], [], []
    spin_s = TIMING_SPIN_S if side.job.cores else 0.0
    limit_s = side.limit_s(1)
    with side.party.looking_out(spin_s):
        for index, (inputs, room) in enumerate(zip(drawn, answers, strict=True)):
            message = {
                "do": "batch",
                "index": index,
                "forward_seed": FORWARD_SEED,
                "queued_flushes": TIMING_BATCH_QUEUED_FLUSHES[side.job.settings.device],
                "cover_ms": 0.0,
                "spin_s": spin_s,
            }
            write, take = side.exchange.writer(index, inputs), side.exchange.taker(room, index)
            start = time.monotonic()
            write()
            reply = side.party.ask(message, timeout_s=limit_s)
            take()
            walls_ms.append(1e3 * (time.monotonic() - start))
            launches_ms += checked_times(reply.get("times_ms"), 1, walls_ms[-1])
            strides.append(reply.get("strides"))
    if reference is None:
        return Batch(tuple(walls_ms), tuple(launches_ms))
    comparisons = [
        compare_all(as_delivered(answer, claim), layout.leaves(reference.forward(inputs)))
        for answer, claim, inputs in zip(answers, strides, drawn, strict=True)
    ]
    return Batch(tuple(walls_ms), tuple(launches_ms), tuple(comparisons))


def as_delivered(answers: list[torch.Tensor], strides: Any) -> list[torch.Tensor]:
    """Private copies of a batch's outputs, read in the order in which the worker says that they lie.

    A permuted output is copied as it lies, or it would take longer than the baseline's and be held against its launch.
    Which permutation that is may be chosen when the bytes are written: a transposed view is a legal answer and costs no
    launch anything. Raises CandidateFailure for strides that leave gaps or overlap.
    """
    if not isinstance(strides, list) or len(strides) != len(answers):
        raise CandidateFailure(
            "protocol_violation", f"expected strides of {len(answers)} outputs: {str(strides)[:120]}"
        )
    return [_read_as(answer, stride) for answer, stride in zip(answers, strides, strict=True)]


def _read_as(answer: torch.Tensor, stride: Any) -> torch.Tensor:
    if stride is None:
        return answer
    if isinstance(stride, list) and len(stride) == answer.dim() and all(type(step) is int for step in stride):
        if layout.is_gapless(answer.shape, stride):
            steps = [1 if extent == 1 else step for step, extent in zip(stride, answer.shape)]
            return answer.as_strided(answer.shape, steps)
    raise CandidateFailure("protocol_violation", f"no order of an output of {list(answer.shape)}: {str(stride)[:120]}")


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0
