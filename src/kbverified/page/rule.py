"""The verdicts of a candidate as a function of tau, in a form that a browser can evaluate.

verdicts.judge stays the one place in which a verdict is decided. A candidate that fails at one tau passes at a larger
one or fails at all of them, so each test's verdict is a step: ``below`` for a tau under ``needs``, ``above`` from there
on. Both are asked of verdicts.judge itself, at a tau that is too small for anything and at one that lets all pass.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kbverified import protocol, verdicts
from kbverified.candidate_records import CandidateRecords
from kbverified.records.stages import CompileRecord, GateRecord
from kbverified.verdicts import Judgement, Outcome, Test

NOTHING_PASSES = 5e-324
"""The smallest positive number: only a critical tolerance of 0 is within it."""
EVERYTHING_PASSES = sys.float_info.max


@dataclass(frozen=True)
class Step:
    """One test's verdict for every tau. ``needs`` None: tau does not matter, and ``below`` is ``above``."""

    needs: float | None
    """The smallest tau with the verdict ``above``."""
    below: str | None
    above: str | None
    """A verdict; None for none, with the reason in ``why_null``."""
    why_null: str | None

    def at(self, tau: float) -> str | None:
        """The verdict at a tau."""
        return self.above if self.needs is None or tau >= self.needs else self.below


def applicable_of(found: CandidateRecords) -> tuple[str, ...] | None:
    """The distributions that apply to a candidate's problem; None where no audit says so."""
    audited = found.problem is not None and found.problem.distributions
    return found.problem.applicable() if found.problem is not None and audited else None


def steps(found: CandidateRecords) -> dict[Test, Step]:
    """The three tests of one candidate. Raises RecordError as verdicts.judge does."""
    compiled, gate = found.stages["compile"], found.stages["hidden-gate"]
    assert compiled is None or isinstance(compiled, CompileRecord)
    assert gate is None or isinstance(gate, GateRecord)
    applicable, path = applicable_of(found), found.path("hidden-gate")
    least, most = (
        verdicts.judge(compiled, gate, applicable, tau, path, found.problem)
        for tau in (NOTHING_PASSES, EVERYTHING_PASSES)
    )
    outcomes = verdicts.outcomes(gate, applicable, path) if gate is not None else {}
    names = verdicts.applicable_names(outcomes, applicable)
    wanted: dict[Test, tuple[str, ...]] = dict.fromkeys(verdicts.TESTS, names)
    wanted["standard"] = tuple(name for name in names if name == protocol.STANDARD_DISTRIBUTION)
    return {test: _step(least[test], most[test], outcomes, wanted[test]) for test in verdicts.TESTS}


def _step(least: Judgement, most: Judgement, outcomes: dict[str, Outcome], wanted: tuple[str, ...]) -> Step:
    if least.verdict == most.verdict:
        return Step(None, most.verdict, most.verdict, most.why_null)
    tolerances = [outcomes[name].critical_tolerance for name in wanted if name in outcomes]
    return Step(max(t for t in tolerances if t is not None), least.verdict, most.verdict, most.why_null)
