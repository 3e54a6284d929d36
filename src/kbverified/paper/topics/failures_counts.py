"""What the four distributions catch, one by one: problems and samples kept apart. Pure.

A sample *fails on* a distribution where its output there needs a larger tau than it has, or its launch failed. A sample
that ended before (a build error, a crash under an earlier one) has *not reached* it, which is no failure of that
distribution's. A problem is failed on a distribution only if none of its samples passes there, and one reached it.

A distribution *alone* catches a sample that fails there and passes every other one that applies; and a problem of which
no sample passes the hidden test, while one would if this distribution were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kbverified import metrics, protocol
from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.estimates import clustered_share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.records.problem import ProblemRecord
from kbverified.tau_sweep import distributions_of

Row = Mapping[str, Any]
Outcome = Literal["pass", "wrong value", "other failure", "not reached"]
FAILED: tuple[Outcome, ...] = ("wrong value", "other failure")


@dataclass(frozen=True)
class Failures:
    """One generator's samples for the problems of a scope, on one distribution."""

    generator: str
    dtype: str | None
    suite: str
    level: int | None
    distribution: str
    problems: Estimate
    """Share failed, of the problems of which a sample reached it."""
    n_problems_failed: int
    samples: Estimate
    """Share failed, of the samples that reached it."""
    n_wrong_value: int
    n_other_failure: int
    n_not_reached: int
    alone_problems: Estimate
    """Share that it alone catches, of the problems to which it applies and of which a sample was judged."""
    n_alone_problems: int
    n_alone_samples: int


@dataclass(frozen=True)
class Sample:
    """One judged sample: what became of it on each distribution that applies to its problem."""

    problem: str
    level: int
    passes: bool
    """The hidden test."""
    outcomes: Mapping[str, Outcome]

    @property
    def alone(self) -> str | None:
        """The one distribution without which it would pass the hidden test; None where there is no such one."""
        amiss = [name for name, found in self.outcomes.items() if found != "pass"]
        return amiss[0] if len(amiss) == 1 and self.outcomes[amiss[0]] in FAILED and len(self.outcomes) > 1 else None


def outcome(row: Row, distribution: str) -> Outcome:
    """What became of a judged sample on a distribution that applies."""
    tolerance = row[f"critical_tolerance_{distribution}"]
    passes = metrics.within_tolerance(tolerance, row["tau"]) if row["tau"] is not None else None
    if passes is False:
        return "wrong value"
    if distribution in (row["failed_hidden"] or "").split(", "):
        return "other failure"
    return "not reached" if passes is None else "pass"


def samples_of(rows: Sequence[Row]) -> list[Sample]:
    """The samples that have a hidden verdict: the machine's faults, and what no stage has judged, say nothing."""
    return [
        Sample(
            f"{row['suite']}/{row['problem']}",
            row["level"],
            row["verdict_hidden"] == "pass",
            {name: outcome(row, name) for name in distributions_of(row)},
        )
        for row in rows
        if row["verdict_hidden"] is not None
    ]


def _by_problem(samples: Iterable[Sample], scope: Scope) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {f"{scope.suite}/{problem}": [] for problem in scope.problems}
    for sample in samples:
        if sample.problem in found:
            found[sample.problem].append(sample)
    return found


def caught_alone(generators: Iterable[Sequence[Sample]], name: str, scope: Scope) -> list[tuple[str, bool]]:
    """Problems of a scope to which a distribution applies and of which a sample was judged, and whether it alone keeps
    at least one of the generators from solving them."""
    found: dict[str, bool] = {}
    for samples in generators:
        for problem, of_one in _by_problem(samples, scope).items():
            met = [sample for sample in of_one if name in sample.outcomes]
            if met:
                alone = any(s.alone == name for s in met) and not any(s.passes for s in met)
                found[problem] = found.get(problem, False) or alone
    return list(found.items())


def failures_of(
    samples: Sequence[Sample], generator: str, dtype: str | None, scope: Scope, settings: AggregationSettings
) -> list[Failures]:
    """Of one generator's samples: one entry for each distribution, in protocol order."""
    by_problem = _by_problem(samples, scope)
    about = (generator, dtype, scope.suite, scope.level)
    return [
        _failures(by_problem, name, about, caught_alone([samples], name, scope), settings)
        for name in protocol.DISTRIBUTIONS
    ]


def _failures(
    by_problem: Mapping[str, Sequence[Sample]],
    name: str,
    about: tuple[str, str | None, str, int | None],
    alone: Sequence[tuple[str, bool]],
    settings: AggregationSettings,
) -> Failures:
    met = {p: [s for s in samples if name in s.outcomes] for p, samples in by_problem.items()}
    met = {problem: samples for problem, samples in met.items() if samples}
    reached = [(p, o) for p, samples in met.items() for s in samples if (o := s.outcomes[name]) != "not reached"]
    passed = {problem for problem, found in reached if found == "pass"}
    failed = [(problem, problem not in passed) for problem in dict.fromkeys(problem for problem, _ in reached)]
    every = [s.outcomes[name] for samples in met.values() for s in samples]
    return Failures(
        *about,
        distribution=name,
        problems=clustered_share_estimate(failed, "no sample of any problem reached it", settings),
        n_problems_failed=sum(hit for _, hit in failed),
        samples=clustered_share_estimate([(p, o in FAILED) for p, o in reached], "no sample reached it", settings),
        n_wrong_value=every.count("wrong value"),
        n_other_failure=every.count("other failure"),
        n_not_reached=every.count("not reached"),
        alone_problems=clustered_share_estimate(alone, "no judged sample", settings),
        n_alone_problems=sum(hit for _, hit in alone),
        n_alone_samples=sum(s.alone == name for samples in met.values() for s in samples),
    )


@dataclass(frozen=True)
class Hardened:
    """One generator's samples that pass the hidden test and have a hardened verdict, on one hardened law, or on one of
    the published distributions, whose answers are held against the oracle there too."""

    generator: str
    dtype: str | None
    suite: str
    law: str
    samples: Estimate
    """Share failed there, of those samples: a law that a problem leaves out fails nobody."""
    n_failed: int
    n_alone: int
    """Of these, the ones that fail no other law."""


def hardened_laws(rows: Iterable[Row], problems: Iterable[ProblemRecord]) -> list[str]:
    """Every law that an audit names, in the audits' order, then by name what else samples failed on this test."""
    audited = [law.law for problem in problems for law in problem.hardened]
    failed = sorted({law for row in rows for law in _failed_laws(row)})
    return list(dict.fromkeys([*audited, *failed]))


def _failed_laws(row: Row) -> tuple[str, ...]:
    """Of a sample that passes the hidden test. Distributions among them were passed there, and failed by the oracle."""
    names = row["failed_hardened"] if row["verdict_hidden"] == "pass" else None
    return tuple(names.split(", ")) if names else ()


def hardened_of(
    rows: Sequence[Row], generator: str, scope: Scope, laws: Sequence[str], settings: AggregationSettings
) -> list[Hardened]:
    """Of one generator, an entry for each law; ``scope`` is that of the hardened test."""
    wanted = set(scope.problems)
    here = [
        (row["problem"], _failed_laws(row))
        for row in rows
        if row["suite"] == scope.suite
        and row["problem"] in wanted
        and row["verdict_hidden"] == "pass"
        and row["verdict_hardened"] is not None
    ]
    dtype = next((row["dtype"] for row in rows if row["dtype"]), None)
    why = "no sample that passes the hidden test has a hardened verdict"
    return [
        Hardened(
            generator,
            dtype,
            scope.suite,
            law,
            clustered_share_estimate([(problem, law in failed) for problem, failed in here], why, settings),
            sum(law in failed for _, failed in here),
            sum(failed == (law,) for _, failed in here),
        )
        for law in laws
    ]
