"""The sets of problems that metrics are taken over, with their resamples, and the winners on them.

The active problems are the selected ones that are usable and not degenerate: the same set for every generator, arm
and test, so that no arm can look better by leaving problems out. In each arm the winner among a problem's verified
samples is chosen by that arm's speedup (metrics.best_of).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbverified import metrics, statistics
from kbverified.aggregation import AggregationSettings
from kbverified.hardened.verdict import undecidable
from kbverified.keys import ProblemKey
from kbverified.metrics import Arm
from kbverified.records.problem import ProblemRecord
from kbverified.statistics import Floats
from kbverified.verdicts import TESTS, Test

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scope:
    """The active problems of one suite and level (None: all levels), and their bootstrap counts."""

    suite: str
    level: int | None
    problems: tuple[str, ...]
    counts: Floats | None
    undecidable: int = 0
    """Active problems that are left out of it."""


@dataclass(frozen=True)
class Best:
    """Per active problem of a scope: solved, and the winner's row, None where no verified sample has a speedup."""

    solved: tuple[bool, ...]
    winners: tuple[Row | None, ...]

    def column(self, name: str) -> list[float | None]:
        return [None if row is None else row[name] for row in self.winners]


def why_inactive(problem: ProblemRecord | None) -> str | None:
    """Why a problem counts in no metric; None where it is active."""
    if problem is None:
        return "not audited: no audit-problem record"
    if problem.status == "skipped":
        return f"not audited: {problem.reason}"
    if not problem.usable:
        return f"unusable: {problem.detail or 'the reference does not run'}"
    if problem.degenerate is None:
        return "not audited: the record does not say whether it is degenerate"
    return "degenerate: the reference is 0 throughout" if problem.degenerate else None


def best_samples(rows: Sequence[Row], problems: Sequence[str], arm: Arm, test: Test) -> Best:
    """Best of N per problem (in the order of ``problems``) among rows of one generator and suite."""
    verified: dict[str, list[Row]] = {}
    for row in rows:
        if row[f"verdict_{test}"] == "pass":
            verified.setdefault(row["problem"], []).append(row)
    name = f"speedup_{arm}"
    winners = [
        metrics.best_of(verified.get(p, []), speedup_of=lambda row: row[name], order=lambda row: row["sample"])
        for p in problems
    ]
    return Best(tuple(p in verified for p in problems), tuple(winners))


def dtype_of(rows: Sequence[Row]) -> str | None:
    return "+".join(sorted({row["dtype"] for row in rows if row["dtype"]})) or None


def scopes(
    problems: Mapping[ProblemKey, ProblemRecord | None], dtypes: Iterable[str | None], settings: AggregationSettings
) -> list[dict[Test, Scope]]:
    """Each suite's levels, then the suite as a whole, per test. Suites are never pooled: their shapes differ.

    ``problems`` are the selected ones, ``dtypes`` those of the generators (``dtype_of``). All tests share one scope but
    the hardened one, which leaves out what it cannot decide.
    """
    kinds = set(dtypes)
    found = []
    for suite in sorted({key.suite for key in problems}):
        keys = sorted((k for k in problems if k.suite == suite), key=lambda k: (k.level, k.number))
        for level in [*sorted({key.level for key in keys}), None]:
            active = tuple(k.problem for k in keys if level in (None, k.level) and not why_inactive(problems[k]))
            every = scope_on(suite, level, active, settings)
            per_test: dict[Test, Scope] = dict.fromkeys(TESTS, every)
            found.append(per_test | {"hardened": _decidable(every, problems, kinds, settings)})
    return found


def scope_on(suite: str, level: int | None, active: tuple[str, ...], settings: AggregationSettings) -> Scope:
    """A scope on these problems, with resamples that follow from their names."""
    seed = statistics.seed_from("problems", suite, active)
    counts = statistics.resample_counts(len(active), seed, settings.resamples) if active else None
    return Scope(suite, level, active, counts)


def _decidable(
    scope: Scope,
    problems: Mapping[ProblemKey, ProblemRecord | None],
    dtypes: Iterable[str | None],
    settings: AggregationSettings,
) -> Scope:
    """Without the problems that are undecidable in any of the dtypes, so that all generators have the same."""
    kinds = {dtype for dtype in dtypes if dtype in settings.tau}
    left = {
        key.problem
        for key, problem in problems.items()
        if key.suite == scope.suite and problem and any(undecidable(problem, dtype) for dtype in kinds if dtype)
    }
    if not left.intersection(scope.problems):
        return scope
    kept = tuple(problem for problem in scope.problems if problem not in left)
    return replace(scope_on(scope.suite, scope.level, kept, settings), undecidable=len(scope.problems) - len(kept))
