"""What k samples of a problem would have given, for every k up to the number that there is (best_of_k.py).

Arm, test, active problems and resamples are the leaderboard's, so that at k = n every number is the leaderboard's own.
A problem without a candidate counts as not solved, as there. A problem with some, but fewer than k, says nothing about
k: the numbers over all active problems are null then, and stand beside those over the problems that have k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from kbverified.best_of_k import chance_that_best, expected_best, pass_at_k
from kbverified.leaderboard.estimates import pooled_mean_estimate, rate_estimate
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.leaderboard.scopes import Row, Scope, scope_on
from kbverified.metrics import Arm
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import by_dtype, generators_in
from kbverified.verdicts import Test

NOTHING = "no generator has a candidate that was evaluated in one dtype"
NO_WINNER = "no sample was chosen and timed"
UNREACHED_K = 50
"""What arXiv 2607.16241 leaves open: it took five samples of each problem."""
ROUND_KS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Pool:
    """All samples of one problem, by what they can win."""

    n: int
    verified: int
    """That pass the test, timed or not."""
    ranked: tuple[float, ...]
    """Logarithms of the speedups of verified samples that have one, slowest first."""
    by_standard: tuple[tuple[float, bool], ...]
    """Of the samples that pass the *standard* test and have a speedup, slowest first: its logarithm, and whether the
    sample passes the test. The fastest of these is what who has no other test takes."""

    def solved(self, k: int) -> float:
        """Chance that k samples hold a verified one."""
        return pass_at_k(self.n, self.verified, k) if self.n else 0.0

    def timed(self, k: int) -> float:
        """Chance that k samples hold a verified one with a speedup."""
        return pass_at_k(self.n, len(self.ranked), k) if self.n else 0.0

    def log_best(self, k: int) -> float:
        """Expected logarithm of the fastest verified sample's speedup; subsets without one add 0."""
        return expected_best(self.ranked, self.n, k) if self.n else 0.0

    def log_given(self, k: int) -> float:
        """Expected logarithm of the fastest verified sample's speedup, given that there is one; 0 where none can be."""
        return self.log_best(k) / self.timed(k) if self.ranked else 0.0

    def faster(self, k: int) -> float:
        """Chance that k samples hold a verified one that is faster than the reference."""
        return pass_at_k(self.n, sum(value > 0 for value in self.ranked), k) if self.n else 0.0

    def log_kept(self, k: int) -> float:
        """Expected logarithm where the reference is kept unless a verified sample is faster: never below 0."""
        return expected_best([max(0.0, value) for value in self.ranked], self.n, k) if self.n else 0.0

    def taken(self, k: int) -> float:
        """Chance that k samples hold one that passes the standard test and has a speedup."""
        return pass_at_k(self.n, len(self.by_standard), k) if self.n else 0.0

    def taken_right(self, k: int) -> float:
        """Chance that the fastest of these passes the test."""
        return chance_that_best([right for _, right in self.by_standard], self.n, k) if self.n else 0.0

    def taken_wrong(self, k: int) -> float:
        """Chance that the fastest of these fails it."""
        return chance_that_best([not right for _, right in self.by_standard], self.n, k) if self.n else 0.0

    def log_taken_right(self, k: int) -> float:
        """Expected logarithm of its speedup where it passes the test; elsewhere nothing is added."""
        return (
            expected_best([value if right else 0.0 for value, right in self.by_standard], self.n, k) if self.n else 0.0
        )

    def log_taken(self, k: int) -> float:
        """Expected logarithm of its speedup, right or wrong: what who has no other test claims."""
        return expected_best([value for value, _ in self.by_standard], self.n, k) if self.n else 0.0


def pool(rows: Sequence[Row], arm: Arm, test: Test) -> Pool:
    """The samples of one problem and generator. Of equally fast ones the lower number wins, as in metrics.best_of."""
    name = f"speedup_{arm}"
    timed = sorted((row for row in rows if row[name] is not None), key=lambda row: (row[name], -row["sample"]))
    return Pool(
        n=len(rows),
        verified=sum(row[f"verdict_{test}"] == "pass" for row in rows),
        ranked=tuple(math.log(row[name]) for row in timed if row[f"verdict_{test}"] == "pass"),
        by_standard=tuple(
            (math.log(row[name]), row[f"verdict_{test}"] == "pass")
            for row in timed
            if row["verdict_standard"] == "pass"
        ),
    )


@dataclass(frozen=True, eq=False)
class Curve:
    """One generator on one scope, under one arm and test."""

    generator: str
    dtype: str
    scope: Scope
    arm: Arm
    test: Test
    pools: tuple[Pool, ...]
    """Per problem of the scope."""
    inputs: PaperInputs = field(repr=False)
    made: dict[object, Any] = field(default_factory=dict, repr=False)
    """What was computed of it: tables, figures and findings ask for the same numbers."""

    @property
    def fewest(self) -> int:
        """Samples of the problem with a candidate that has fewest: up to here all of them speak."""
        return min((p.n for p in self.pools if p.n), default=0)

    @property
    def most(self) -> int:
        return max((p.n for p in self.pools), default=0)

    @property
    def ks(self) -> tuple[int, ...]:
        """Every k of a table: round numbers, and what there is."""
        return tuple(sorted({k for k in (*ROUND_KS, self.fewest, self.most) if 1 <= k <= self.most}))

    def why_null(self, k: int) -> str | None:
        """Why nothing can be said about k samples over all problems; None where it can."""
        short = sum(0 < p.n < k for p in self.pools)
        if k > self.most:
            return f"best of {k} is not extrapolated: no problem has more than {self.most} samples"
        if short:
            return f"{short} of {len(self.pools)} problems have fewer than {k} samples"
        return None

    def _entry(self, test: Test) -> Entry | None:
        return self.inputs.leaderboard.entry(self.generator, self.scope.suite, self.scope.level, self.arm, test)

    @cached_property
    def why_unjudged(self) -> str | None:
        """Why no candidate has a verdict of the test; None where one has."""
        entry = self._entry(self.test)
        return entry.correctness.why_null if entry and entry.correctness.value is None else None

    def why_untimed(self, test: Test) -> str | None:
        """Why no sample that passes a test has a speedup in this arm; None where one has, or none passes."""
        entry = self._entry(test)
        return entry.correct_speedup.why_null if entry and entry.n_solved and not entry.n_timed else None

    def rate(self, k: int, of: Callable[[Pool], float], why: str | None = None) -> Estimate:
        """Mean over the active problems of a chance; null where ``why`` says why."""
        why = self.why_null(k) or self.why_unjudged or why
        return rate_estimate([] if why else [of(p) for p in self.pools], self.scope, why, self.inputs.settings)

    def sides(self, logs: Callable[[Pool], float], weight: Callable[[Pool], float]) -> tuple[list[float], list[float]]:
        return [logs(p) for p in self.pools], [weight(p) for p in self.pools]

    def pooled(
        self, k: int, logs: Callable[[Pool], float], weight: Callable[[Pool], float], why: str | None = None
    ) -> Estimate:
        """exp(sum of logs / sum of weights) over the active problems; null where ``why`` says why."""
        if why := self.why_null(k) or self.why_unjudged or why:
            return Estimate(value=None, n=0, why_null=why)
        sides = self.sides(logs, weight)
        return pooled_mean_estimate(*sides, self.scope, None if any(sides[1]) else NO_WINNER, self.inputs.settings)

    def enough(self, k: int) -> Curve:
        """The same on the problems that have k samples alone."""
        kept = [(name, p) for name, p in zip(self.scope.problems, self.pools, strict=True) if p.n >= k]
        if len(kept) == len(self.pools):
            return self
        names, pools = tuple(name for name, _ in kept), tuple(p for _, p in kept)
        scope = scope_on(self.scope.suite, self.scope.level, names, self.inputs.settings)
        return replace(self, scope=scope, pools=pools, made={})


@dataclass(frozen=True, eq=False)
class BestOf:
    """What the best of k samples of each problem comes to, over the active problems of a curve's scope."""

    curve: Curve
    k: int

    def _pooled(self, logs: Callable[[Pool], float], weight: Callable[[Pool], float]) -> Estimate:
        return self.curve.pooled(self.k, logs, weight, self.curve.why_untimed(self.curve.test))

    @cached_property
    def passing(self) -> Estimate:
        """pass@k: at k = n the leaderboard's correctness."""
        return self.curve.rate(self.k, lambda p: p.solved(self.k))

    @cached_property
    def speedup(self) -> Estimate:
        """Correct Speedup of k samples: the geometric mean over all subsets that hold a verified and timed one."""
        return self._pooled(lambda p: p.log_best(self.k), lambda p: p.timed(self.k))

    @cached_property
    def speedup_same(self) -> Estimate:
        """The same with every problem that any sample solves weighing the same at every k: grows with k."""
        return self._pooled(lambda p: p.log_given(self.k), lambda p: float(bool(p.ranked)))

    @cached_property
    def faster(self) -> Estimate:
        """fast_1 of k samples."""
        return self.curve.rate(self.k, lambda p: p.faster(self.k), self.curve.why_untimed(self.curve.test))

    @cached_property
    def kept(self) -> Estimate:
        """Speedup over all active problems of who keeps the reference where no verified sample is faster."""
        return self._pooled(lambda p: p.log_kept(self.k), lambda _: 1.0)

    @cached_property
    def enough(self) -> BestOf:
        """The same over the problems that have k samples alone; itself where all do, or none."""
        restricted = self.curve.enough(self.k) if self.k <= self.curve.most else self.curve
        return self if restricted is self.curve else BestOf(restricted, self.k)


def best_of(curve: Curve, k: int) -> BestOf:
    """The one of a curve and k."""
    found: BestOf = curve.made.setdefault(("best", k), BestOf(curve, k))
    return found


def curves(inputs: PaperInputs) -> list[Curve]:
    """Under the headline arm and test: every generator on every level and suite where it has candidates."""
    return curves_of(inputs, inputs.leaderboard.conditions.headline_arm, inputs.leaderboard.conditions.headline_test)


@lru_cache(maxsize=4)
def curves_of(inputs: PaperInputs, arm: Arm, test: Test) -> list[Curve]:
    """The same under any arm and test."""
    dtype_of: Mapping[str, str] = {name: dtype for dtype, names in by_dtype(inputs).items() for name in names}
    found = []
    for scope in (per_test[test] for per_test in inputs.scopes):
        for name in generators_in(inputs, scope.suite):
            if name in dtype_of:
                pools = _pools(inputs.rows[name], scope, arm, test)
                found.append(Curve(name, dtype_of[name], scope, arm, test, pools, inputs))
    return found


def _pools(rows: Sequence[Row], scope: Scope, arm: Arm, test: Test) -> tuple[Pool, ...]:
    by_problem: dict[str, list[Row]] = {name: [] for name in scope.problems}
    for row in rows:
        if row["suite"] == scope.suite and row["problem"] in by_problem:
            by_problem[row["problem"]].append(row)
    return tuple(pool(of_one, arm, test) for of_one in by_problem.values())


def whole_suites(inputs: PaperInputs, arm: Arm | None = None, test: Test | None = None) -> list[Curve]:
    """Every generator on all levels of every suite, under the headline arm and test where none is named."""
    c = inputs.leaderboard.conditions
    found = curves_of(inputs, arm or c.headline_arm, test or c.headline_test)
    return [curve for curve in found if curve.scope.level is None]
