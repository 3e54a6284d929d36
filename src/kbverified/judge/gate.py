"""hidden-gate: correctness on every distribution. tau is not applied here: the record holds critical tolerances.

Order of one trial, and why: inputs are drawn from a secret seed and written to shared memory; the worker launches;
its outputs are copied to private memory; the shared outputs are given up; inputs are drawn again and compared with
the shared ones; only then is the expected output computed, from the private draw. So there is no moment at which a
worker could read, or change, what it is judged against.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kbverified import layout
from kbverified.correctness import combine, compare
from kbverified.distributions import Inputs
from kbverified.judge.exchange import Exchange
from kbverified.judge.flags import flag_state, flags_now
from kbverified.judge.inputs import needed_bytes, secret_seed
from kbverified.judge.party import CandidateFailure, InfrastructureFault, Party
from kbverified.judge.reference import Reference
from kbverified.judge.stage import Job
from kbverified.judge.trial_errors import TrialErrors
from kbverified.protocol import DISTRIBUTIONS, GATE_TRIALS_PER_DISTRIBUTION
from kbverified.records import TrialResult, Verdict


@dataclass(frozen=True)
class Law:
    """What the inputs of one trial are drawn by. ``draw`` maps a secret seed to inputs on the device: twice the same
    seed has to give bitwise equal tensors, since the judge draws again to see whether a launch changed them."""

    name: str
    """Stands in the record as the trial's distribution."""
    draw: Callable[[int], Inputs]


def run(job: Job) -> dict[str, Any]:
    """Run the gate for one job; returns the fields of its record. Raises InfrastructureFault."""
    party = job.party
    reference = Reference(job.problem, job.settings.dtype)
    errors = TrialErrors(reference, job.audit)
    digests = reference.digests()
    with job.on_device() as device:
        device.reset_peak()
        job.preflight(needed_bytes(job.audit, copies_of_buffers=2, models=2))
        try:
            started = job.await_model(party)
        except CandidateFailure as failure:
            return _failed(job.blame(failure), party)
        job.lap("candidate")
        trials: list[TrialResult] = []
        try:
            with job.memory_is_the_candidates():
                reference.place(device)
                job.lap("place")
                failed = _trials(job, party, errors, trials)
        except CandidateFailure as failure:
            failed = failure
        job.lap("trials")
        flags_after = flags_now(party) if failed is None else None
        if failed is not None:
            failed = job.blame(failed)
        return {
            "verdict": failed.verdict if failed else "pass",
            "detail": failed.detail if failed else None,
            "trials": tuple(trials),
            "weights_match": layout.weights_match(started.get("weights", []), digests),
            "flags_before": flag_state(party.flags),
            "flags_after": flags_after,
            "numerics": errors.numerics,
            "judge_peak_bytes": device.peak_bytes(),
            "output_tail": party.worker.output_tail(),
        }


def _failed(failure: CandidateFailure, party: Party) -> dict[str, Any]:
    return {"verdict": failure.verdict, "detail": failure.detail, "output_tail": party.worker.output_tail()}


def _trials(job: Job, party: Party, errors: TrialErrors, trials: list[TrialResult]) -> CandidateFailure | None:
    """Every distribution in order, results into ``trials``; the first failure."""
    applicable = job.audit.applicable()
    laws = []
    for name in DISTRIBUTIONS:
        if name in applicable:
            laws += [Law(name, partial(errors.reference.draw, name))] * GATE_TRIALS_PER_DISTRIBUTION
        else:
            laws += [Law(name, _cannot_draw)] * GATE_TRIALS_PER_DISTRIBUTION
    return run_laws(job, party, errors, laws, trials)


def _cannot_draw(seed: int) -> Inputs:
    raise NotApplicable("the reference is not finite")


class NotApplicable(Exception):
    """Raised by a law's ``draw`` where it cannot be asked of this problem: no trial, and no failure."""


def run_laws(
    job: Job, party: Party, errors: TrialErrors, laws: list[Law], trials: list[TrialResult]
) -> CandidateFailure | None:
    """One trial of each law in order, results into ``trials``; the first failure.

    Stops at a failure that ends the worker, goes on after any other. Raises InfrastructureFault.
    """
    first: CandidateFailure | None = None
    for law in laws:
        try:
            result = one_trial(job, party, errors, law)
        except NotApplicable as why:
            trials.append(TrialResult(distribution=law.name, applicable=False, detail=str(why)))
            continue
        except CandidateFailure as failure:
            trials.append(TrialResult(distribution=law.name, failure=failure.verdict, detail=failure.detail[-500:]))
            first = first or failure
            if party.worker.poll() is not None or failure.verdict in ("timeout", "protocol_violation"):
                return failure
            continue
        trials.append(result)
        if result.failure is not None and first is None:
            first = CandidateFailure(result.failure, f"{law.name}: {result.detail}")
    return first


def one_trial(job: Job, party: Party, errors: TrialErrors, law: Law) -> TrialResult:
    """One launch under one law, judged. Raises CandidateFailure, InfrastructureFault, NotApplicable."""
    answers, inputs = _launch(job, party, law)
    expected = layout.leaves(errors.reference.forward(inputs))
    if len(expected) != len(answers) or any(a.shape != b.shape for a, b in zip(answers, expected)):
        raise InfrastructureFault(
            f"{job.problem}: the reference's output does not have the audited shape; audit it again"
        )
    result = judge_outputs(law.name, [compare(a, b) for a, b in zip(answers, expected)])
    if not result.applicable or result.failure is not None:
        return result
    job.lap("trials")
    started = time.monotonic()
    against_oracle = errors.of_trial(law.name, inputs, expected, answers)
    # The candidate has nothing to do with it: neither with the time, nor with the memory that torch would keep.
    job.device.release_cached()
    if party.deadline is not None:
        party.deadline += time.monotonic() - started
    job.lap("oracle")
    return result.model_copy(update={"oracle": against_oracle})


def _launch(job: Job, party: Party, law: Law) -> tuple[list[torch.Tensor], Inputs]:
    """The candidate's outputs in private memory, and the inputs as the judge draws them again afterwards."""
    seed = secret_seed()
    inputs = law.draw(seed)
    exchange = Exchange(job.device, party, job.audit, job.settings.dtype)
    try:
        exchange.offer(inputs)
        del inputs
        # Triton and the like compile at the first launch: that one, and only that one, may take as long as a build.
        exchange.forward(timeout_s=job.settings.build_timeout_s if job.builds_in_gate else None)
        job.builds_in_gate = False
        answers = exchange.take()
        exchange.release_outputs()
        inputs = law.draw(seed)
        if not exchange.inputs_unchanged(inputs):
            raise CandidateFailure("mutates_input", f"an input was changed by the launch under {law.name}")
        return answers, inputs
    finally:
        exchange.close()


def judge_outputs(name: str, parts: list[Any]) -> TrialResult:
    """One trial's comparison as a result: a failure only where no tolerance could mend it."""
    worst = combine(parts)
    failure: Verdict | None = None
    detail = None
    applicable = worst.reference_nonfinite == 0
    if not applicable:
        detail = "the reference itself is not finite on this trial"
    elif worst.mismatched_nonfinite:
        failure = "nonfinite"
        detail = f"{worst.nan_count} NaN and {worst.inf_count} Inf where the reference is finite"
    return TrialResult(
        distribution=name,
        applicable=applicable,
        failure=failure,
        detail=detail,
        critical_tolerance=worst.critical_tolerance,
        max_abs_error=worst.max_abs_error,
        rms_relative_error=worst.rms_relative_error,
        nan_count=worst.nan_count,
        inf_count=worst.inf_count,
        reference_rms=worst.reference_rms,
    )
