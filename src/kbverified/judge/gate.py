"""hidden-gate: correctness on every distribution, then the hardened trials. Tolerances are not applied here: the record
holds critical ones, and scaled errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kbverified import layout
from kbverified.correctness import compare_all
from kbverified.distributions import Inputs
from kbverified.judge import hardened
from kbverified.judge.flags import flag_state, flags_now
from kbverified.judge.inputs import needed_bytes, secret_seed
from kbverified.judge.party import CandidateFailure, Party
from kbverified.judge.reference import Reference
from kbverified.judge.stage import Job
from kbverified.judge.trial import Law, NotApplicable, ends_the_worker, one_trial
from kbverified.judge.trial_errors import TrialErrors
from kbverified.protocol import DISTRIBUTIONS, GATE_TRIALS_PER_DISTRIBUTION, STANDARD_DISTRIBUTION
from kbverified.records.trials import TrialResult


def run(job: Job) -> dict[str, Any]:
    """Run the gate for one job; returns the fields of its record. Raises InfrastructureFault."""
    party = job.party
    reference = Reference(job.problem, job.settings.dtype)
    # The second model is there for hardened trials; both at once, for a freed block is a little too small for the next.
    weights_bytes, fresh_seed = reference.weight_bytes(), secret_seed()
    job.weights_bytes = (2 if job.audit.hardened else 1) * weights_bytes
    if job.audit.hardened and weights_bytes:
        reference.prepare(fresh_seed, perturb=True)
    errors = TrialErrors(reference, job.audit)
    with job.on_device() as device:
        device.reset_peak()
        job.preflight(needed_bytes(job.audit, copies_of_buffers=2, models=2))
        try:
            with job.memory_is_the_candidates():
                reference.place(device)
                digests = reference.digests()
                _get_ready(job, errors)
            job.lap("place")
            started = job.await_model(party)
        except CandidateFailure as failure:
            return _failed(job.blame(failure), party)
        job.lap("candidate")
        trials: list[TrialResult] = []
        try:
            with job.memory_is_the_candidates():
                failed = _trials(job, party, errors, trials)
        except CandidateFailure as failure:
            failed = failure
        job.lap("trials")
        flags_after = flags_now(party) if failed is None else None
        if failed is not None:
            failed = job.blame(failed)
        why_not = hardened.why_not(job, trials) if failed is None else "it fails the hidden test as it is"
        more = hardened.run(job, party, errors, fresh_seed) if why_not is None else []
        job.lap("hardened")
        return {
            "verdict": failed.verdict if failed else "pass",
            "detail": failed.detail if failed else None,
            "trials": tuple(trials),
            "weights_match": layout.weights_match(started.get("weights", []), digests),
            "flags_before": flag_state(party.flags),
            "flags_after": flags_after,
            "numerics": errors.numerics,
            "hardened": tuple(more),
            "hardened_why_not": why_not,
            "judge_peak_bytes": device.peak_bytes(),
            "oracle_peak_bytes": errors.oracle_peak_bytes,
            "output_tail": party.worker.output_tail(),
        }


def _get_ready(job: Job, errors: TrialErrors) -> None:
    """For as long as the candidate constructs its model, do once what every trial does: a GPU's libraries and kernels
    are loaded when they are first used, in all some half a second. The draws are the judge's own: no trial has them."""
    if not job.party.has_answered():
        for _ in _first_steps(job, errors):
            if job.party.has_answered():
                break
    job.device.release_cached()


def _first_steps(job: Job, errors: TrialErrors) -> Iterator[None]:
    """Does one of them each time it is asked for the next."""
    reference = errors.reference
    keeps_state = any(True for _ in reference.model.buffers())  # its launches are to be the candidate's, one by one
    if STANDARD_DISTRIBUTION in job.audit.applicable() and not keeps_state:
        inputs = reference.draw(STANDARD_DISTRIBUTION, secret_seed())
        made = layout.leaves(reference.forward(inputs))
        yield
        compare_all(made, made)
        yield
        errors.of_trial("before the trials", inputs, made, made)
        yield
        del inputs, made
    for law in job.audit.hardened:
        if law.applicable:
            reference.draw_law(law.law, secret_seed(), law.positive)
            yield


def _failed(failure: CandidateFailure, party: Party) -> dict[str, Any]:
    return {"verdict": failure.verdict, "detail": failure.detail, "output_tail": party.worker.output_tail()}


def _trials(job: Job, party: Party, errors: TrialErrors, trials: list[TrialResult]) -> CandidateFailure | None:
    """Every distribution in order, results into ``trials``; the first failure."""
    applicable = job.audit.applicable()
    laws = []
    for name in DISTRIBUTIONS:
        draw = partial(errors.reference.draw, name) if name in applicable else _cannot_draw
        laws += [Law(name, draw)] * GATE_TRIALS_PER_DISTRIBUTION
    return run_laws(job, party, errors, laws, trials)


def _cannot_draw(seed: int) -> Inputs:
    raise NotApplicable("the reference is not finite")


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
            if ends_the_worker(party, failure.verdict):
                return failure
            continue
        trials.append(result)
        if result.failure is not None and first is None:
            first = CandidateFailure(result.failure, f"{law.name}: {result.detail}")
    return first
