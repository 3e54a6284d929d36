"""One trial: a launch of the candidate on inputs that nobody knew, judged.

Order, and why: inputs are drawn from a secret seed and written to shared memory; the worker launches; its outputs are
copied to private memory; the shared outputs are given up; inputs are drawn again and compared with the shared ones;
only then is the expected output computed, from the private draw. So there is no moment at which a worker could read,
or change, what it is judged against.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kbverified import layout
from kbverified.correctness import combine, compare
from kbverified.distributions import Inputs
from kbverified.judge.exchange import Exchange, same_bits
from kbverified.judge.inputs import secret_seed
from kbverified.judge.party import CandidateFailure, InfrastructureFault, Party
from kbverified.judge.stage import Job
from kbverified.judge.trial_errors import TrialErrors
from kbverified.records.base import Verdict
from kbverified.records.trials import OracleErrors, TrialResult


@dataclass(frozen=True)
class Law:
    """What the inputs of one trial are drawn by. ``draw`` maps a secret seed to inputs on the device: twice the same
    seed has to give bitwise equal tensors, since the judge draws again to see whether a launch changed them."""

    name: str
    """Stands in the record as the trial's distribution."""
    draw: Callable[[int], Inputs]
    guard: layout.Guard | None = None
    """What lies around inputs and outputs, and in free memory before the launch."""
    launches: int = 1
    """On the same inputs, one after the other: each answer has to be right."""
    own_memory: layout.Guard | None = None
    """What lies around that which torch allocates for the launch (hardened/own_memory.py)."""


class NotApplicable(Exception):
    """A law cannot be asked of this problem, or no guard be put around what this candidate allocates: no trial, and no
    failure."""


def one_trial(job: Job, party: Party, errors: TrialErrors, law: Law) -> TrialResult:
    """A launch under one law, judged. Raises CandidateFailure, InfrastructureFault, NotApplicable."""
    tried, inputs = _launch(job, party, law)
    expected = layout.leaves(errors.reference.forward(inputs))
    if len(expected) != len(tried[0]) or any(a.shape != b.shape for a, b in zip(tried[0], expected)):
        raise InfrastructureFault(
            f"{job.problem}: the reference's output does not have the audited shape; audit it again"
        )
    result = judge_outputs(law.name, [compare(a, b) for answers in tried for a, b in zip(answers, expected)])
    job.lap("comparing")
    if not result.applicable or result.failure is not None:
        return result
    started = time.monotonic()
    against_oracle = worst_of([errors.of_trial(law.name, inputs, expected, answers) for answers in tried])
    # The candidate has nothing to do with it: neither with the time, nor with the memory that torch would keep.
    job.device.release_cached()
    if party.deadline is not None:
        party.deadline += time.monotonic() - started
    job.lap("oracle")
    return result.model_copy(update={"oracle": against_oracle})


def ends_the_worker(party: Party, failure: Verdict | None) -> bool:
    """Whether nothing more can be asked of a worker after this failure of a trial."""
    return party.worker.poll() is not None or failure in ("timeout", "protocol_violation")


def worst_of(errors: list[OracleErrors]) -> OracleErrors:
    """Of several answers' the errors that are furthest off; one without figures says nothing of the others."""
    return max(errors, key=lambda e: (e.wrong_elements or 0, -1.0 if e.scaled_error is None else e.scaled_error))


def _launch(job: Job, party: Party, law: Law) -> tuple[list[list[torch.Tensor]], Inputs]:
    """The candidate's outputs in private memory, and the inputs as the judge draws them again afterwards.

    Of several launches those outputs that differ from the first's, bit by bit.
    """
    seed = secret_seed()
    inputs = law.draw(seed)
    job.lap("drawing")
    exchange = Exchange(job.device, party, job.audit, job.settings.dtype, law.guard)
    try:
        exchange.offer(inputs)
        del inputs
        job.lap("buffers")
        # Triton and the like compile at the first launch: that one, and only that one, may take as long as a build.
        reply = exchange.forward(job.settings.build_timeout_s if job.builds_in_gate else None, law.own_memory)
        job.builds_in_gate = False
        if law.own_memory is not None and "not_guarded" in reply:  # from nothing else may a worker excuse itself
            why = str(reply["not_guarded"])[:300]
            raise NotApplicable(f"it does not run while torch's allocations are moved: {why}")
        tried = [exchange.take()]
        for _ in range(law.launches - 1):
            exchange.poison_outputs()
            job.device.synchronize()
            exchange.forward()
            again = exchange.take()
            if not all(same_bits(a, b) for a, b in zip(again, tried[0], strict=True)):
                tried.append(again)
        exchange.release_outputs()
        job.lap("launches")
        inputs = law.draw(seed)
        if not exchange.inputs_unchanged(inputs):
            raise CandidateFailure("mutates_input", f"an input was changed by the launch under {law.name}")
        if not exchange.gaps_unchanged():
            raise CandidateFailure("mutates_input", f"memory beside an input was written to under {law.name}")
        job.lap("drawing again")
        return tried, inputs
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
