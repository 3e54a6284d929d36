"""One of k samples chosen with our tests, and without: by who has the standard test alone and takes the fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from kbverified import statistics
from kbverified.leaderboard.estimates import estimate_of
from kbverified.leaderboard.model import Estimate
from kbverified.paper.contrasts import missing, share_difference
from kbverified.paper.topics.best_of_n_curve import NO_WINNER, Curve, Pool
from kbverified.statistics import Interval


@dataclass(frozen=True, eq=False)
class Selection:
    """Both ways of choosing one of k samples of each problem, over the active problems of a curve's scope."""

    curve: Curve
    k: int

    @cached_property
    def _why(self) -> str | None:
        return self.curve.why_untimed("standard")

    def _rates(self, of: Callable[[Pool, int], float]) -> list[float]:
        return [of(p, self.k) for p in self.curve.pools]

    @cached_property
    def right(self) -> Estimate:
        """Chance that one of k is verified and has a speedup: what choosing with our tests gives."""
        return self.curve.rate(self.k, lambda p: p.timed(self.k), self._why)

    @cached_property
    def taken_right(self) -> Estimate:
        """Chance that the fastest of k by the standard test alone is verified. It may fall with k."""
        return self.curve.rate(self.k, lambda p: p.taken_right(self.k), self._why)

    @cached_property
    def lost(self) -> Estimate:
        """``right`` less ``taken_right``, problem by problem."""
        if self.right.value is None:
            return self.right
        sides = self._rates(Pool.timed), self._rates(Pool.taken_right)
        return share_difference(*sides, self.curve.scope, self.curve.inputs.settings)

    @cached_property
    def wrong(self) -> Estimate:
        """Share of the choices by the standard test that are not verified."""
        if self.taken_right.value is None:
            return self.taken_right
        taken, wrong = self._rates(Pool.taken), self._rates(Pool.taken_wrong)
        n, counts, settings = sum(t > 0 for t in taken), self.curve.scope.counts, self.curve.inputs.settings
        if not n or counts is None:
            return Estimate(value=None, n=n, why_null=NO_WINNER)
        # All right or all wrong: every resample looks alike, and the problems are so many trials of it.
        interval: Interval | None
        if wrong == taken or not any(wrong):
            interval = statistics.exact_share_interval(n if any(wrong) else 0, n, settings.confidence)
        else:
            draws = statistics.pooled_mean_draws(wrong, taken, counts)
            interval = statistics.percentile_interval(draws, n, settings.confidence)
        few = f"no interval: only {n} problems have a choice"
        return estimate_of(sum(wrong) / sum(taken), interval, n, None, few)

    @cached_property
    def speedup(self) -> Estimate:
        """Correct Speedup of the choices by the standard test that are verified."""
        k = self.k
        return self.curve.pooled(k, lambda p: p.log_taken_right(k), lambda p: p.taken_right(k), self._why)

    @cached_property
    def claimed(self) -> Estimate:
        """Correct Speedup of these choices, right or wrong."""
        return self.curve.pooled(self.k, lambda p: p.log_taken(self.k), lambda p: p.taken(self.k), self._why)

    def right_more_than(self, other: Selection) -> Estimate:
        """``taken_right`` less that of another k, problem by problem."""
        if unknown := missing(self.taken_right, other.taken_right):
            return unknown
        sides = self._rates(Pool.taken_right), other._rates(Pool.taken_right)
        return share_difference(*sides, self.curve.scope, self.curve.inputs.settings)


def selection(curve: Curve, k: int) -> Selection:
    """The one of a curve and k."""
    found: Selection = curve.made.setdefault(("selection", k), Selection(curve, k))
    return found
