"""The timing stages: baseline and candidate, each in its own fresh process under the same mode, on one device.

First the baseline alone, in repetitions and in a batch, before any code of the candidate's runs; then rounds A B B A
(rounds.py): only one side has work on the device at a time. Then the judge's bound (bound.py). Inputs are redrawn from
a secret seed before every round and every batch. Raw repetitions are kept; every summary is derived from them later.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from kbverified.correctness import combine
from kbverified.judge import bound
from kbverified.judge.flags import flag_state, flags_now
from kbverified.judge.inputs import needed_bytes
from kbverified.judge.loose import loose_verdict
from kbverified.judge.party import CandidateFailure, machines_fault
from kbverified.judge.reference import Reference
from kbverified.judge.rounds import (
    Trace,
    baseline,
    least_rounds,
    output_limit,
    redraw,
    round_of,
    run_alone,
    run_rounds,
    why_unstable,
)
from kbverified.judge.side import Side
from kbverified.judge.stage import Job
from kbverified.protocol import BASELINE_DISTURBED_RATIO, TIMING_HOST_BOUND_RATIO
from kbverified.records.timing import JudgeBound


def run(job: Job) -> dict[str, Any]:
    """Time one candidate against its baseline; returns the fields of its record. Raises InfrastructureFault."""
    reference = Reference(job.problem, job.settings.dtype)
    job.weights_bytes = reference.weight_bytes()
    with job.on_device() as device:
        baseline(lambda: job.await_model(job.baseline))
        job.await_open(job.party)
        job.lap("baseline")
        reference.place(device)
        job.preflight(needed_bytes(job.audit, copies_of_buffers=3, models=2))
        job.lap("place")
        interleaved = needed_bytes(job.audit, copies_of_buffers=4, models=3) < device.free_bytes()
        a, b = Side(job, job.baseline), Side(job, job.party)
        compiled = None
        try:
            if job.compiled is not None:
                with machines_fault("the compiled baseline failed"):
                    compiled = job.compiled.load(job, reference, a)
            alone = _before_the_candidate(job, reference, a)
            with job.memory_is_the_candidates():
                fields = _measure(job, reference, a, b, alone, interleaved)
        except CandidateFailure as failure:
            failure = job.blame(failure)
            fields = {"verdict": failure.verdict, "detail": failure.detail}
        finally:
            a.exchange.close()
            b.exchange.close()
        fields["compiled_baseline"] = compiled
        return {**fields, "interleaved": interleaved, "output_tail": job.party.worker.output_tail()}


@dataclass(frozen=True)
class _Alone:
    """What is known before any code of the candidate's runs, and what nobody can therefore have disturbed."""

    trace: Trace
    times_ms: list[float]
    host_bound: float
    """Share of these launches in which the device waited for the host."""
    batch: bound.Batch | None
    ramp_s: float | None


def _before_the_candidate(job: Job, reference: Reference, a: Side) -> _Alone:
    """First launches of baseline and judge side by side, which bring the clock up; then the baseline alone.

    Raises InfrastructureFault.
    """
    trace = Trace()
    baseline(lambda: _first_launches(reference, a))
    job.device.release_cached()
    job.lap("first launches")
    ramp_s = job.device.ramp_up()
    job.lap("ramp")
    baseline(a.pilot)
    times_ms, _ = baseline(lambda: a.time(a.hot, max(a.repetitions, 5)))
    host_bound = (a.host_bound or 0) / len(times_ms)
    batch = baseline(lambda: bound.baseline_alone(reference, a, trace))
    job.lap("baseline alone")
    return _Alone(trace, times_ms, host_bound, batch, ramp_s)


def _first_launches(reference: Reference, a: Side) -> None:
    """Each loads its libraries and kernels, a tenth of a second on a GPU: neither waits for the other's."""
    inputs = redraw(reference)
    a.exchange.offer(inputs)
    a.first_launch(lambda: reference.forward(inputs))


def _measure(job: Job, reference: Reference, a: Side, b: Side, alone: _Alone, interleaved: bool) -> dict[str, Any]:
    measured = _together if interleaved else _one_after_the_other
    found, worst_of_batches = measured(job, reference, a, b, alone.trace, alone.batch)
    fields = _fields(job, alone, found, worst_of_batches)
    return {**fields, "ramp_s": alone.ramp_s, "reserved_cores": len(job.cores) if job.cores else None}


def _start_candidate(job: Job, reference: Reference, b: Side, trace: Trace) -> None:
    """The candidate's model; the limit of its outputs, which needs nothing of it, while that is constructed."""
    job.post_model(b.party)
    trace.limit = output_limit(reference, job.mode, job.gate_error)
    job.device.release_cached()
    job.await_model(b.party)
    job.lap("candidate")
    b.exchange.offer(redraw(reference))
    b.pilot()
    job.lap("pilot")


def _together(
    job: Job, reference: Reference, a: Side, b: Side, trace: Trace, batch: bound.Batch | None
) -> tuple[JudgeBound, Any]:
    _start_candidate(job, reference, b, trace)
    run_rounds(reference, a, b, trace, job.settings.timing_budget_s)
    job.lap("rounds")
    found = bound.measure(reference, a, b, trace, batch)
    job.lap("bound")
    return found


def _one_after_the_other(
    job: Job, reference: Reference, a: Side, b: Side, trace: Trace, batch: bound.Batch | None
) -> tuple[JudgeBound, Any]:
    """Both sides do not fit the device together: the baseline's rounds first, then the candidate's."""
    count = least_rounds(2 * a.turn_ms)
    base = baseline(lambda: run_alone(reference, a, count))
    a.exchange.close()
    a.party.close()
    _start_candidate(job, reference, b, trace)
    candidate = run_alone(reference, b, count, trace)
    trace.rounds += [round_of("baseline", x, y) for x, y in zip(base, candidate, strict=True)]
    job.lap("rounds")
    found = bound.measure(reference, None, b, trace, batch)
    job.lap("bound")
    return found


def _fields(job: Job, alone: _Alone, found: JudgeBound, worst_of_batches: Any) -> dict[str, Any]:
    trace, rounds = alone.trace, alone.trace.rounds
    worst = combine([*trace.verified, *([worst_of_batches] if worst_of_batches is not None else [])])
    return {
        **_verdict(job, alone, found, worst),
        "rounds": tuple(rounds),
        "rounds_dropped": sum(r.dropped for r in rounds),
        "budget_s": job.settings.timing_budget_s,
        "judge_bound": found,
        "baseline_alone_ms": tuple(alone.times_ms),
        "baseline_disturbed": abs(trace.baseline_ms() / statistics.median(alone.times_ms) - 1.0)
        > BASELINE_DISTURBED_RATIO,
        "outputs_verified": len(trace.verified) + (found.k or 0) * found.batches,
        "timed_critical_tolerance": worst.critical_tolerance,
        "timed_output_limit": trace.limit,
        "flags_before": flag_state(job.party.flags),
        "flags_after": flags_now(job.party),
        "judge_wall_ms_per_launch": statistics.median(trace.walls_ms),
    }


def _verdict(job: Job, alone: _Alone, found: JudgeBound, worst: Any) -> dict[str, Any]:
    """A wrong output first, then a claim that the judge's clock disproves, then rounds that give no time."""
    outputs = loose_verdict(worst, limit=alone.trace.limit)
    if outputs["verdict"] != "pass":
        return outputs
    if found.outcome == "disputed":
        return disputed(found, alone.host_bound)
    unstable = why_unstable(alone.trace.rounds, job.settings.device)
    return {"verdict": "unstable", "detail": unstable} if unstable else outputs


def disputed(found: JudgeBound, waits: float) -> dict[str, Any]:
    """What a claim is called that the judge's clock does not bear out.

    ``waits``: share of the baseline's launches, alone on the device, in which that waited for the host. Where it is
    most, a time is the host's and may be another in a batch: ``unstable``, without a speedup either, up to
    TIMING_HOST_BOUND_RATIO.
    """
    assert found.claim_ms is not None and found.t_judge_ms is not None
    text = f"claims {found.claim_ms:.4g} ms for a launch; by the judge's clock it takes {found.t_judge_ms:.4g} ms"
    text += f" (smallest of {found.batches} batches of {found.k})"
    if waits > 0.5 and found.t_judge_ms <= TIMING_HOST_BOUND_RATIO * found.claim_ms:
        return {
            "verdict": "unstable",
            "detail": f"{text}; the device waits for the host in {100 * waits:.0f} % of the baseline's launches",
        }
    return {"verdict": "time_disputed", "detail": text}
