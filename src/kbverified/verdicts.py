"""From the records of compile and gate to the candidate's verdicts: here, and only here, tau is applied.

Three tests are judged from one gate record. *standard* is KernelBench's own: the original distribution alone.
*hidden* is the published system's: every distribution that applies to the problem. *hardened* is hidden and, on top,
our own laws, and the oracle's limits under all of them (hardened/verdict.py). A failure that no tolerance can mend is
itself the verdict; otherwise the critical tolerance is compared with tau.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kbverified import protocol
from kbverified.hardened.verdict import judge as judge_hardened
from kbverified.metrics import within_tolerance
from kbverified.records.files import RecordError
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import CompileRecord, GateRecord, StageRecord

Test = Literal["standard", "hidden", "hardened"]
TESTS: tuple[Test, ...] = ("standard", "hidden", "hardened")


@dataclass(frozen=True)
class Judgement:
    """Verdict of one test; ``why_null`` says why there is none. ``failed`` names distributions in protocol order, or
    hardened laws."""

    verdict: str | None
    detail: str | None = None
    failed: tuple[str, ...] = ()
    why_null: str | None = None


@dataclass(frozen=True)
class Outcome:
    """One distribution over all its trials: the first failure, and the worst critical tolerance."""

    applicable: bool
    failure: str | None = None
    detail: str | None = None
    critical_tolerance: float | None = None

    @property
    def why_null(self) -> str | None:
        """Why there is no critical tolerance, None where there is one."""
        if not self.applicable:
            return "not applicable: the reference is not finite or raises"
        return self.failure if self.critical_tolerance is None else None


def why_missing(record: StageRecord | None, stage: str) -> str | None:
    """Why a stage gives no numbers for this candidate; None where it ran and the candidate passed it."""
    if record is None:
        return f"no {stage} record"
    if record.status == "skipped":
        return f"{stage} skipped: {record.reason}"
    if record.verdict != "pass":
        return f"{stage}: {record.verdict}"
    return None


def outcomes(gate: GateRecord, applicable: Sequence[str] | None, path: Path) -> dict[str, Outcome]:
    """Outcome per distribution of one gate record.

    ``applicable`` is the problem audit's list, None where there is no audit. Raises RecordError, naming the file
    and the trial, where the record contradicts the audit or itself.
    """
    found: dict[str, Outcome] = {}
    for i, trial in enumerate(gate.trials):
        name = trial.distribution
        if applicable is not None and trial.applicable and name not in applicable:
            raise RecordError(
                f"{path}: field trials.{i}.applicable: true for {name}, but the problem's audit finds only "
                f"{', '.join(applicable) or 'nothing'} applicable. Delete the file and rerun to make it again."
            )
        if trial.applicable and trial.failure is None and trial.critical_tolerance is None:
            raise RecordError(
                f"{path}: field trials.{i}.critical_tolerance: null for {name} without a failure. "
                "Delete the file and rerun to make it again."
            )
        found[name] = _merge(
            found.get(name),
            Outcome(
                trial.applicable,
                trial.failure if trial.failure != "pass" else None,
                trial.detail,
                trial.critical_tolerance if trial.applicable else None,
            ),
        )
    return found


def _merge(first: Outcome | None, second: Outcome) -> Outcome:
    if first is None:
        return second
    tolerances = [o.critical_tolerance for o in (first, second) if o.critical_tolerance is not None]
    failing = first if first.failure else second
    applicable = first.applicable and second.applicable
    return Outcome(applicable, failing.failure, failing.detail, max(tolerances, default=None))


def judge(
    compiled: CompileRecord | None,
    gate: GateRecord | None,
    applicable: Sequence[str] | None,
    tau: float | None,
    gate_path: Path,
    problem: ProblemRecord | None = None,
) -> dict[Test, Judgement]:
    """Verdicts of all tests, by their names in TESTS. Raises RecordError for a gate record that cannot be true.

    ``problem`` is the audit, by which a problem can be undecidable. A structural verdict of compile or gate is the
    verdict of all tests, unless the gate's record shows that it
    belongs to a hidden distribution: then the standard test, which never ran it, is judged by its own.
    """
    if compiled is not None and compiled.status == "ok" and compiled.verdict != "pass":
        failure = Judgement(compiled.verdict, compiled.detail)
        return dict.fromkeys(TESTS, failure)
    if gate is None or gate.status == "skipped":
        earlier = why_missing(compiled, "compile") if compiled is None or compiled.status == "skipped" else None
        return dict.fromkeys(TESTS, Judgement(None, why_null=earlier or why_missing(gate, "hidden-gate")))
    found = outcomes(gate, applicable, gate_path)
    every = applicable_names(found, applicable)
    standard = tuple(name for name in every if name == protocol.STANDARD_DISTRIBUTION)
    hidden = _judge_test(gate, found, every, every, tau, gate_path)
    return {
        "standard": _judge_test(gate, found, standard, every, tau, gate_path),
        "hidden": hidden,
        "hardened": _judge_hardened(hidden, gate, problem),
    }


def _judge_hardened(hidden: Judgement, gate: GateRecord, problem: ProblemRecord | None) -> Judgement:
    if hidden.verdict != "pass":
        return hidden
    found = judge_hardened(gate, problem)
    return Judgement(_named(found.verdict, gate.weights_match), found.detail, found.failed, found.why_null)


def applicable_names(found: dict[str, Outcome], applicable: Sequence[str] | None) -> tuple[str, ...]:
    """The distributions that apply to the problem, in protocol order.

    Without an audit these are the protocol's, less those that the gate itself marks as not applicable.
    """
    if applicable is None:
        return tuple(name for name in protocol.DISTRIBUTIONS if name not in found or found[name].applicable)
    order = {name: i for i, name in enumerate(protocol.DISTRIBUTIONS)}
    return tuple(sorted(applicable, key=lambda name: (order.get(name, len(order)), name)))


def _judge_test(
    gate: GateRecord,
    found: dict[str, Outcome],
    wanted: tuple[str, ...],
    every: tuple[str, ...],
    tau: float | None,
    path: Path,
) -> Judgement:
    """Verdict over the wanted distributions, of all (``every``) that apply to the problem."""
    if not wanted:
        return Judgement(None, why_null=f"{protocol.STANDARD_DISTRIBUTION} is not applicable to the problem")
    if tau is None:
        raise RecordError(f"{path}: field provenance.dtype: the settings name no tau for {gate.provenance.dtype}")
    broken = [name for name in wanted if name in found and found[name].failure is not None]
    unjudged = [name for name in wanted if name in found and not found[name].applicable]
    failed = tuple(name for name in wanted if name in found and name not in unjudged and not _passes(found[name], tau))
    compared = {name for name in every if name in found and found[name].failure is None}
    # A gate that failed is no verdict on this test where its own distributions were all compared and others were not.
    elsewhere = compared.issuperset(wanted) and len(compared) < len(every)
    if broken and gate.verdict == "pass":
        return Judgement(_named(found[broken[0]].failure, gate.weights_match), found[broken[0]].detail, failed)
    if gate.verdict != "pass" and (broken or not elsewhere):
        return Judgement(_named(gate.verdict, gate.weights_match), gate.detail, failed)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise RecordError(
            f"{path}: field trials: verdict {gate.verdict} without a trial of {', '.join(missing)}. "
            "Delete the file and rerun to make it again."
        )
    counted = {name: None if name in unjudged else found[name].critical_tolerance for name in wanted}
    return by_tolerance(counted, tau, gate.weights_match)


def by_tolerance(tolerances: Mapping[str, float | None], tau: float, weights_match: bool | None) -> Judgement:
    """The verdict of a test in which tau alone is left to decide: nothing failed that no tolerance can mend.

    ``tolerances``: the worst critical tolerance of each of the test's distributions, in protocol order; None where
    the reference was not finite on the trial's own draw.
    """
    failed = tuple(name for name, value in tolerances.items() if within_tolerance(value, tau) is False)
    if failed:
        detail = f"{failed[0]}: needs tau {tolerances[failed[0]]:.3g}, has {tau:g}"
        return Judgement(_named("wrong_value", weights_match), detail, failed)
    if unjudged := [name for name, value in tolerances.items() if value is None]:
        # The audit found the distribution applicable, the trial's own draw made the reference overflow: no pass.
        return Judgement(None, why_null=f"{', '.join(unjudged)}: the reference was not finite on this trial; rerun it")
    return Judgement("pass")


def _passes(outcome: Outcome, tau: float) -> bool:
    return outcome.failure is None and within_tolerance(outcome.critical_tolerance, tau) is True


def _named(verdict: str | None, weights_match: bool | None) -> str | None:
    """A wrong value under weights that correspond and differ is named after its cause."""
    return "weights_differ" if verdict == "wrong_value" and weights_match is False else verdict
