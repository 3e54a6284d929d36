"""Every generator at every tolerance of the list, computed once for tables, figures and findings.

Verdicts at another tau come from the critical tolerances in the kernel table, by the aggregation's own rule
(tau_sweep.py): nothing reruns. All of it is the hidden test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from kbverified import tau_sweep
from kbverified.leaderboard.estimates import mean_estimate, share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Best, Scope, best_samples
from kbverified.metrics import Arm, within_tolerance
from kbverified.paper.contrasts import mean_of_ratios, mean_ratio
from kbverified.paper.inputs import PaperInputs, Row
from kbverified.paper.scopes import by_dtype, generators_in
from kbverified.roofline.columns import claim_stage
from kbverified.verdicts import Test

TEST: Test = "hidden"
NOTHING = "no generator has a candidate that was evaluated in one dtype"
ROUNDING = {"fp32": 2.0**-24, "bf16": 2.0**-9}
"""Largest relative error of rounding to the dtype: a tau below it asks for more than the dtype can say."""


@dataclass(frozen=True)
class Swept:
    """One generator on one scope at every tau of the list, from loose to tight."""

    generator: str
    dtype: str
    scope: Scope
    arm: Arm
    best: Mapping[float, Best]
    """By tau: solved, and the winner's row, per problem of the scope."""

    @property
    def taus(self) -> tuple[float, ...]:
        return tuple(self.best)

    def own(self, tau: float) -> list[float | None]:
        """The winners' speedups at a tau, per problem of the scope."""
        return self.best[tau].column(f"speedup_{self.arm}")

    def kept(self, tau: float, taus: Sequence[float]) -> list[float | None]:
        """The same on the problems that are solved and timed at every one of ``taus``; None elsewhere."""
        everywhere = [None not in values for values in zip(*map(self.own, taus), strict=True)]
        return [value if here else None for value, here in zip(self.own(tau), everywhere, strict=True)]

    def common(self, tau: float) -> list[float | None]:
        """On the common problems: those solved and timed at every tau of the list."""
        return self.kept(tau, self.taus)

    def timed_beyond(self, tau: float) -> int:
        """Problems whose winner needs more than tau in a launch that was timed, where TF32 may be on."""
        winners = [row for row in self.best[tau].winners if row is not None]
        return sum(tau_sweep.timed_beyond(row, claim_stage(self.arm, row["matched_from"]), tau) for row in winners)


def taus_of(inputs: PaperInputs, dtype: str) -> tuple[float, ...]:
    """The list of tau of a dtype, from loose to tight: that of the configuration, and the one which decides verdicts.

    The configuration's list is meant for fp32. For bf16 it is moved by the factor between their own tolerances, and
    ends where the dtype does.
    """
    own = inputs.settings.tau
    factor = own[dtype] / own["fp32"] if dtype in own and "fp32" in own else 1.0
    moved = {float(f"{tau * factor:.6g}") for tau in inputs.taus}
    meant = {tau for tau in moved if tau >= ROUNDING.get(dtype, 0.0)}
    return tuple(sorted(meant | ({own[dtype]} if dtype in own else set()), reverse=True))


@lru_cache(maxsize=1)
def sweep(inputs: PaperInputs) -> dict[Arm, list[Swept]]:
    """For the headline and the published arm: every generator on every level and suite where it has candidates."""
    dtype_of = {name: dtype for dtype, names in by_dtype(inputs).items() for name in names}
    at = {
        name: {tau: tau_sweep.rows_at(inputs.rows[name], {d: tau}, inputs.problems) for tau in taus_of(inputs, d)}
        for name, d in dtype_of.items()
    }
    arms: tuple[Arm, ...] = (inputs.settings.headline_arm, "published")
    found: dict[Arm, list[Swept]] = {arm: [] for arm in arms}
    for per_test in inputs.scopes:
        scope = per_test[TEST]
        for name in generators_in(inputs, scope.suite):
            here = {tau: _within(rows, scope) for tau, rows in at.get(name, {}).items()}
            for arm, of_arm in found.items():
                if here:
                    best = {tau: best_samples(rows, scope.problems, arm, TEST) for tau, rows in here.items()}
                    of_arm.append(Swept(name, dtype_of[name], scope, arm, best))
    return found


def whole_suites(inputs: PaperInputs) -> list[Swept]:
    """In the headline arm, every generator on all levels of every suite."""
    return [part for part in sweep(inputs)[inputs.settings.headline_arm] if part.scope.level is None]


def _within(rows: Sequence[Row], scope: Scope) -> list[Row]:
    wanted = set(scope.problems)
    return [row for row in rows if row["suite"] == scope.suite and row["problem"] in wanted]


def curve(rows: Sequence[Row], scope: Scope, arm: Arm, test: Test, taus: Sequence[float]) -> list[Best]:
    """Best of N at many taus: from the least tau that each row passes at, which is the same and much less work."""
    name, needed = f"speedup_{arm}", [(row, tau_sweep.needed_tau(row, test)) for row in _within(rows, scope)]
    found = []
    for tau in taus:
        light = [
            {"problem": row["problem"], "sample": row["sample"], f"verdict_{test}": "pass", name: row[name]}
            for row, least in needed
            if within_tolerance(least, tau)
        ]
        found.append(best_samples(light, scope.problems, arm, test))
    return found


@dataclass(frozen=True)
class Change:
    """What tightening from one tau to the next does to Correct Speedup. Factors; above 1 is a larger mean."""

    loose: float
    tight: float
    dropped: int
    """Problems in the mean at the loose tau and not at the tight one."""
    whole: Estimate
    """Of the mean as it is reported, each over its own problems."""
    same: Estimate
    """On the problems that are solved at both: never above 1."""
    selection: Estimate
    """At the loose tau already, the mean over the problems that stay, over that of all: what dropping alone does.
    ``whole`` is ``same`` times this."""


@lru_cache(maxsize=1)
def changes(inputs: PaperInputs) -> list[tuple[Swept, Change]]:
    """In the headline arm, of every generator, level and suite: from each tau of the list to the next tighter one."""
    return [(part, change) for part in sweep(inputs)[inputs.settings.headline_arm] for change in _of_one(part, inputs)]


def _of_one(swept: Swept, inputs: PaperInputs) -> Iterator[Change]:
    for loose, tight in pairwise(swept.taus):
        before, after, stay = swept.own(loose), swept.own(tight), swept.kept(loose, (loose, tight))
        yield Change(
            loose,
            tight,
            sum(b is not None and a is None for b, a in zip(before, after, strict=True)),
            mean_ratio(after, before, swept.scope, inputs.settings),
            mean_of_ratios(after, before, swept.scope, inputs.settings),
            mean_ratio(stay, before, swept.scope, inputs.settings),
        )


def solved_share(swept: Swept, tau: float, inputs: PaperInputs) -> Estimate:
    """Share of the active problems that are solved at a tau."""
    return share_estimate(swept.best[tau].solved, swept.scope, None, inputs.settings)


def mean(values: Sequence[float | None], swept: Swept, inputs: PaperInputs) -> Estimate:
    """Correct Speedup over the problems of the scope that have a value."""
    return mean_estimate(values, swept.scope, "no problem of these is solved and timed", inputs.settings)
