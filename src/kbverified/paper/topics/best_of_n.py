"""What more samples buy: pass@k and Correct Speedup of the best of k, and what choosing without our tests would cost.

Every number is an exact expectation over all subsets of k of the samples that there are (best_of_n_curve.py). Beyond
that number nothing is said: how often a rare right answer comes in 50 samples cannot be read off five
(docs/decisions/0025-best-of-n.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from kbverified.leaderboard.model import Estimate
from kbverified.paper.contrasts import missing, pooled_ratio, share_difference
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import conditions_for, level_word, note_for, place
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics import best_of_n_figures
from kbverified.paper.topics.arms import tests_there
from kbverified.paper.topics.best_of_n_curve import (
    NOTHING,
    UNREACHED_K,
    Curve,
    best_of,
    curves,
    curves_of,
    whole_suites,
)
from kbverified.paper.topics.best_of_n_selection import selection
from kbverified.verdicts import TESTS

TOPIC = "best_of_n"

# --- tables -------------------------------------------------------------------------------------------------

_KEY = (
    *(Column(name, name) for name in ("suite", "level", "dtype", "generator")),
    Column("k", "k", kind="count"),
    Column("n_problems", "active", kind="count"),
)
_SUBSETS = (
    "Expectations over all subsets of k of a problem's samples, without replacement; nothing is simulated or "
    "extrapolated. A problem without a candidate counts as not solved."
)


def tables(inputs: PaperInputs) -> list[Table]:
    return [_best(inputs), _by_test(inputs), _selection(inputs)]


def _cells(curve: Curve, k: int) -> tuple[Cell, ...]:
    scope = curve.scope
    return scope.suite, level_word(scope.level), curve.dtype, curve.generator, k, len(scope.problems)


def _ks(curve: Curve) -> tuple[int, ...]:
    """Those that there are and, once per suite, the one that is asked for and not reached."""
    return curve.ks if curve.scope.level is not None or curve.most >= UNREACHED_K else (*curve.ks, UNREACHED_K)


def _note(inputs: PaperInputs, text: str) -> str:
    c = inputs.leaderboard.conditions
    nothing = "" if curves(inputs) else f"Nothing to show: {NOTHING}. "
    return f"{nothing}{_SUBSETS} {text} {note_for(inputs, arm=c.headline_arm, test=c.headline_test)}"


def _best(inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("pass_at_k", "pass@k", kind="percent", interval=True),
        Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
        Column("timed", "of n", kind="count"),
        Column("correct_speedup_same", "on the same problems", kind="factor", interval=True),
        Column("fast_1", "fast_1", kind="percent", interval=True),
        Column("reference_kept", "or the reference", kind="factor", interval=True),
        Column("n_enough", "problems with k samples", kind="count"),
        Column("pass_at_k_enough", "pass@k there", kind="percent", interval=True),
        Column("correct_speedup_enough", "Correct Speedup there", kind="factor", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for curve in curves(inputs):
        for k in _ks(curve):
            speedup = best_of(curve, k).speedup
            rows.append(
                (
                    *_cells(curve, k),
                    best_of(curve, k).passing,
                    speedup,
                    speedup.n,
                    best_of(curve, k).speedup_same,
                    best_of(curve, k).faster,
                    best_of(curve, k).kept,
                    sum(p.n >= k for p in curve.pools),
                    best_of(curve, k).enough.passing,
                    best_of(curve, k).enough.speedup,
                )
            )
    text = (
        "pass@k: chance that k samples hold a verified one, mean over active problems. Correct Speedup: geometric mean "
        "of the fastest verified sample's speedup over all subsets that hold one with a time, each problem weighing "
        "the chance of that; it may fall with k, because harder problems come in. On the same problems: every problem "
        "that any sample solves weighs the same at every k. fast_1: chance that k samples hold a verified one faster "
        "than the reference. Or the reference: geometric mean over all active problems where the reference is kept "
        "unless a verified sample is faster. At k = n these are the leaderboard's numbers. Where a problem has "
        "candidates, but fewer than k, these are null; the last columns are over the problems that have k samples."
    )
    return Table("best_of_n", "Best of k samples", _note(inputs, text), columns, tuple(rows))


def _by_test(inputs: PaperInputs) -> Table:
    arm = inputs.leaderboard.conditions.headline_arm
    shown = tests_there(inputs)
    columns = (*_KEY, *(Column(f"pass_at_k_{test}", test, kind="percent", interval=True) for test in TESTS))
    by_test = {test: curves_of(inputs, arm, test) for test in shown}
    rows = tuple(
        (
            *_cells(found[0], k),
            *(best_of(found[shown.index(test)], k).passing if test in shown else None for test in TESTS),
        )
        for found in zip(*by_test.values(), strict=True)
        for k in found[0].ks
    )
    text = (
        "pass@k under each test, over the active problems; the hardened test leaves out those that it cannot decide. "
        "A dash without a reason: no candidate has a verdict of that test."
    )
    return Table("best_of_n_tests", "pass@k by test", _note(inputs, text), columns, tuple(rows))


def _selection(inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("right", "verified and timed", kind="percent", interval=True),
        Column("taken_right", "chosen by the standard test, and right", kind="percent", interval=True),
        Column("lost", "difference", kind="percent", interval=True),
        Column("wrong", "wrong among the chosen", kind="percent", interval=True),
        Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
        Column("taken_correct_speedup", "chosen by the standard test, where right", kind="factor", interval=True),
        Column("claimed_speedup", "as claimed, right or wrong", kind="factor", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for curve in curves(inputs):
        for k in curve.ks:
            chosen = selection(curve, k)
            rows.append(
                (
                    *_cells(curve, k),
                    chosen.right,
                    chosen.taken_right,
                    chosen.lost,
                    chosen.wrong,
                    best_of(curve, k).speedup,
                    chosen.speedup,
                    chosen.claimed,
                )
            )
    text = (
        "Two ways to choose one of k samples. With our tests: the fastest verified one. Without: the fastest that "
        "passes the standard test, which is then verified; where it fails, the problem is lost, though a slower sample "
        "may have been right. Difference: what choosing with our tests gains, in points of all active problems. "
        "Wrong among the chosen: share of the choices by the standard test that fail. Claimed: Correct Speedup of "
        "these choices, right or wrong; where right, it can exceed the first, since lost problems leave it. All of "
        "it with the times of this arm."
    )
    title = "Choosing the best of k by the standard test alone"
    return Table("best_of_n_selection", title, _note(inputs, text), columns, tuple(rows))


# --- figures and findings -----------------------------------------------------------------------------------


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    """Curves over k, a panel per generator: what is solved, and what the best is worth."""
    return {
        "best_of_n_pass": best_of_n_figures.passing(inputs),
        "best_of_n_speedup": best_of_n_figures.speedup(inputs),
    }


def findings(inputs: PaperInputs) -> list[Finding]:
    """Per generator and suite: one sample against all, what the last one added, what is lost without our tests; and
    that more samples than there are say nothing yet."""
    c = inputs.leaderboard.conditions
    if not whole_suites(inputs):
        nothing = Estimate(value=None, n=0, why_null=NOTHING)
        under = conditions(inputs, arm=c.headline_arm, test=c.headline_test)
        return [report(TOPIC, "what more samples buy", nothing, under)]
    return [finding for curve in whole_suites(inputs) for finding in _of_one(curve, inputs)]


def _of_one(curve: Curve, inputs: PaperInputs) -> Iterator[Finding]:
    scope, name, n = curve.scope, curve.generator, curve.fewest
    where = place(inputs, scope.suite, scope.level)
    under = conditions_for(inputs, scope, arm=curve.arm, test=curve.test, generator=name)
    samples = "one sample" if n == 1 else f"{n} samples"
    for k in sorted({1, n}):
        subject = f"the share of active problems that {name} solves with {_samples(k)} each ({where})"
        yield report(TOPIC, subject, best_of(curve, k).passing, under, form="percent")
    if n > 1:
        yield from _of_several(curve, n, where, under, inputs)
    chosen = selection(curve, n)
    subject = (
        f"the share of active problems that are lost where the fastest of {samples} of {name} is chosen by the "
        f"standard test alone ({where})"
    )
    yield claim(TOPIC, subject, chosen.lost, 0.0, under, form="percent")
    if curve.most < UNREACHED_K:
        subject = f"the best of {UNREACHED_K} samples of {name} ({where})"
        yield report(TOPIC, subject, best_of(curve, UNREACHED_K).passing, under, form="percent")


def _of_several(curve: Curve, n: int, where: str, under: str, inputs: PaperInputs) -> Iterator[Finding]:
    scope, name = curve.scope, curve.generator
    gain = _difference(curve, n, n - 1, inputs)
    subject = f"the share of active problems that sample number {n} adds to those that {name} solves ({where})"
    yield claim(TOPIC, subject, gain, 0.0, under, form="percent")
    whole = (best_of(curve, n).speedup, best_of(curve, 1).speedup)
    ratio = missing(*whole) or pooled_ratio(
        curve.sides(lambda p: p.log_best(n), lambda p: p.timed(n)),
        curve.sides(lambda p: p.log_best(1), lambda p: p.timed(1)),
        scope,
        inputs.settings,
    )
    subject = f"the Correct Speedup of the best of {n} of {name} over that of one sample ({where})"
    yield claim(TOPIC, subject, ratio, 1.0, under)
    for k in (1, n):
        subject = (
            f"the speedup of {name} over all active problems with {_samples(k)} each, the reference being kept "
            f"unless a verified sample is faster ({where}),"
        )
        yield report(TOPIC, subject, best_of(curve, k).kept, under)
    change = selection(curve, n).right_more_than(selection(curve, 1))
    subject = (
        f"the share of active problems on which the fastest sample of {name} by the standard test alone is right, with "
        f"{n} samples less that with one ({where}),"
    )
    yield claim(TOPIC, subject, change, 0.0, under, form="percent")


def _samples(k: int) -> str:
    return "one sample" if k == 1 else f"{k} samples"


def _difference(curve: Curve, more: int, fewer: int, inputs: PaperInputs) -> Estimate:
    if unknown := missing(best_of(curve, more).passing, best_of(curve, fewer).passing):
        return unknown
    a, b = ([p.solved(k) for p in curve.pools] for k in (more, fewer))
    return share_difference(a, b, curve.scope, inputs.settings)
