"""The stations and steps between before and after, computed once for tables, figure and findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.metrics import Arm
from kbverified.paper.contrasts import mean_of_ratios, mean_ratio, with_reasons
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import generators_in, models, speedups
from kbverified.verdicts import Test

Station = tuple[Arm, Test]
BEFORE: Station = ("naive", "standard")
PUBLISHED: Station = ("published", "hidden")
AFTER: Station = ("matched", "hidden")
HARDENED: Station = ("matched", "hardened")

STEPS: tuple[tuple[str, Station, Station], ...] = (
    ("baseline", BEFORE, ("published", "standard")),
    ("precision", ("published", "standard"), ("matched", "standard")),
    ("hidden", ("matched", "standard"), AFTER),
)
"""Each step, from and to: their ratios multiply to after / before, where each station has a mean."""


@dataclass(frozen=True)
class Fall:
    """One generator in one scope."""

    generator: str
    scope: Scope
    stations: dict[Station, Estimate]
    """Correct Speedups, as the leaderboard has them."""
    fall: Estimate
    """After / before, each over its own problems."""
    fall_shared: Estimate
    """After / before on the problems that both have."""
    from_published: Estimate
    """After / published, each over its own problems."""
    steps: dict[str, Estimate]
    """Ratios of STEPS, each over its own problems."""
    hidden_shared: Estimate
    """The hidden step on the problems that are solved under both tests: there only the winner can change."""
    hardened_shared: Estimate
    """Hardened over hidden, matched arm, on the problems that both have."""


@lru_cache(maxsize=1)
def falls(inputs: PaperInputs) -> tuple[Fall, ...]:
    """Every generator in every scope, generators in their order."""
    scopes = inputs.scopes
    return tuple(
        _fall(inputs, name, per_test["standard"], per_test["hardened"])
        for name in models(inputs)
        for per_test in scopes
        if name in generators_in(inputs, per_test["standard"].suite)
    )


def _fall(inputs: PaperInputs, name: str, scope: Scope, decidable: Scope) -> Fall:
    settings = inputs.settings
    stations = {s for _, *ends in STEPS for s in ends} | {PUBLISHED}
    speed = {station: speedups(inputs, name, scope, *station) for station in stations}
    hardened, hidden = (speedups(inputs, name, decidable, *station) for station in (HARDENED, AFTER))
    means = {s: reported(inputs, name, scope.suite, scope.level, s) for s in (*stations, HARDENED)}

    def ratio(end: Station, start: Station) -> Estimate:
        return with_reasons(mean_ratio(speed[end], speed[start], scope, settings), means[end], means[start])

    def shared(end: Station, start: Station) -> Estimate:
        return with_reasons(mean_of_ratios(speed[end], speed[start], scope, settings), means[end], means[start])

    return Fall(
        generator=name,
        scope=scope,
        stations=means,
        fall=ratio(AFTER, BEFORE),
        fall_shared=shared(AFTER, BEFORE),
        from_published=ratio(AFTER, PUBLISHED),
        steps={step: ratio(end, start) for step, start, end in STEPS},
        hidden_shared=shared(AFTER, ("matched", "standard")),
        hardened_shared=with_reasons(
            mean_of_ratios(hardened, hidden, decidable, settings), means[HARDENED], means[AFTER]
        ),
    )


def reported(inputs: PaperInputs, name: str, suite: str, level: int | None, station: Station) -> Estimate:
    """A station's Correct Speedup, as the leaderboard has it."""
    entry = inputs.leaderboard.entry(name, suite, level, *station)
    return entry.correct_speedup if entry else Estimate(value=None, n=0, why_null="not in the leaderboard")


def words(station: Station) -> str:
    return "+".join(station)
