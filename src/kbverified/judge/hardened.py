"""The gate's hardened trials: our own laws, other weights, and rubbish in free memory and around inputs.

They come after the four distributions, and only for a candidate that might pass those. Nothing here changes what the
gate says of the four: a failure, a crash too, is a failure of the hardened test alone.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from kbverified import layout
from kbverified.distributions import Inputs
from kbverified.hardened.laws import LAWS, Parameters
from kbverified.judge.party import CandidateFailure, Party
from kbverified.judge.reference import Reference
from kbverified.judge.stage import Job
from kbverified.judge.trial import Law, NotApplicable, ends_the_worker, one_trial
from kbverified.judge.trial_errors import TrialErrors
from kbverified.protocol import (
    HARDENED_ALIGN_BYTES,
    HARDENED_CLOSED,
    HARDENED_GAP_BYTES,
    HARDENED_LAUNCHES,
    HARDENED_ORACLE_FLOPS_MAX,
    HARDENED_OWN_GAP_BYTES,
    HARDENED_RUBBISH,
    HARDENED_WORTHWHILE_TOLERANCE,
    STANDARD_DISTRIBUTION,
)
from kbverified.records.trials import HardenedTrial, TrialResult

FRESH_WEIGHTS = "h7_fresh_weights"
OWN_MEMORY = "h8_own_memory"


def why_not(job: Job, trials: Sequence[TrialResult]) -> str | None:
    """Why there is nothing to find out: the candidate fails the hidden test, or the audit knows no laws."""
    compared = [t.critical_tolerance for t in trials if t.applicable and t.critical_tolerance is not None]
    if any(t.failure for t in trials) or not compared or max(compared) > HARDENED_WORTHWHILE_TOLERANCE:
        return "it fails the hidden test as it is"
    return None if job.audit.hardened else "the problem's audit has no hardened laws: audit it again"


def run(job: Job, party: Party, errors: TrialErrors, fresh_seed: int) -> list[HardenedTrial]:
    """One trial per law, one with guards around what torch allocates, one with other weights; ends at a failure that
    ends the worker.

    ``fresh_seed``: of the other weights, secret. Raises InfrastructureFault.
    """
    errors.flops_max = HARDENED_ORACLE_FLOPS_MAX
    found: list[HardenedTrial] = []
    for number, audited in enumerate(job.audit.hardened):
        if not audited.applicable or audited.law not in LAWS:
            found.append(HardenedTrial(distribution=audited.law, applicable=False, detail=audited.why_not))
            continue
        drawn: Parameters = {}
        draw = partial(_draw, errors.reference, audited.law, audited.positive, drawn)
        launches = HARDENED_LAUNCHES if not any(trial.applicable for trial in found) else 1
        law = Law(audited.law, draw, guard_of(job.settings.device, number), launches)
        trial = _trial(job, party, errors, law)
        found.append(trial.model_copy(update={"parameters": dict(drawn)}))
        if ends_the_worker(party, trial.failure):
            return found
    found.append(_own_memory(job, party, errors))
    if ends_the_worker(party, found[-1].failure):
        return found
    if errors.reference.weight_bytes():
        if not found[-1].applicable:
            party.close()  # whatever broke under it is not to break the next trial
        found.append(_fresh_weights(job, party, errors, fresh_seed))
    return found


def _draw(reference: Reference, law: str, positive: bool, drawn: Parameters, seed: int) -> Inputs:
    inputs, parameters = reference.draw_law(law, seed, positive)
    drawn.update(parameters)
    return inputs


def _own_memory(job: Job, party: Party, errors: TrialErrors) -> HardenedTrial:
    """The original inputs, guards also around what the candidate makes."""
    guard = guard_of(job.settings.device, len(job.audit.hardened) + 1)
    own = replace(guard, gap_bytes=HARDENED_OWN_GAP_BYTES)
    draw = partial(errors.reference.draw, STANDARD_DISTRIBUTION)
    return _trial(job, party, errors, Law(OWN_MEMORY, draw, guard, own_memory=own))


def guard_of(kind: str, number: int) -> layout.Guard:
    """What lies around inputs, outputs and weights in trial ``number`` on this kind of device."""
    align = HARDENED_ALIGN_BYTES[kind]
    page = mmap.PAGESIZE if kind == "cpu" else align
    rubbish = HARDENED_RUBBISH[number % len(HARDENED_RUBBISH)]
    return layout.Guard(align, page, HARDENED_GAP_BYTES[kind], rubbish, HARDENED_CLOSED[kind])


def _trial(job: Job, party: Party, errors: TrialErrors, law: Law) -> HardenedTrial:
    try:
        with job.memory_is_the_candidates():
            result = one_trial(job, party, errors, law)
    except NotApplicable as why:
        return HardenedTrial(distribution=law.name, applicable=False, detail=str(why)[-500:])
    except CandidateFailure as failure:
        blamed = job.blame(failure)
        return HardenedTrial(distribution=law.name, failure=blamed.verdict, detail=blamed.detail[-500:])
    return HardenedTrial(**result.model_dump())


def _fresh_weights(job: Job, party: Party, errors: TrialErrors, seed: int) -> HardenedTrial:
    """The original inputs and a model from another seed, identity parameters around the identity where the candidate's
    correspond. Without, it still has to follow its constructor's seed, as it did for the four distributions."""
    guard = guard_of(job.settings.device, len(job.audit.hardened))
    match = None
    for perturb in (True, False):
        try:
            party, match = _constructed_again(job, party, errors.reference, seed, perturb, guard)
        except CandidateFailure as failure:
            if perturb:  # it may be more than a constructor takes
                continue
            blamed = job.blame(failure)
            return HardenedTrial(distribution=FRESH_WEIGHTS, failure=blamed.verdict, detail=blamed.detail[-500:])
        if match:
            break
    job.lap("fresh weights")
    draw = partial(errors.reference.draw, STANDARD_DISTRIBUTION)
    trial = _trial(job, party, errors, Law(FRESH_WEIGHTS, draw, guard))
    return trial.model_copy(update={"parameters": {"perturbed": perturb}, "comparable": match})


def _constructed_again(
    job: Job, party: Party, reference: Reference, seed: int, perturb: bool, guard: layout.Guard
) -> tuple[Party, bool | None]:
    """The candidate's model from another seed, in the same worker or, since to be constructed once in a process is no
    fault of a kernel, in one of its own; and whether its weights are those of the reference, which is constructed
    meanwhile. Raises CandidateFailure."""
    how = {"perturb": perturb, "guard": asdict(guard)}
    expected = None
    if party.worker.poll() is None:
        try:
            party.post({"do": "rebuild", "weight_seed": seed, **how})
            expected = reference.rebuild(seed, perturb)
            return party, layout.weights_match(party.reply().get("weights", []), expected)
        except CandidateFailure:
            party.close()  # its memory is the next one's
    another = job.start(job.candidate, "ModelNew", "candidate again")
    another.deadline = party.deadline
    job.post_model(another, seed, digests=True, more=how)
    if expected is None:
        expected = reference.rebuild(seed, perturb)
    return another, layout.weights_match(job.await_model(another).get("weights", []), expected)
