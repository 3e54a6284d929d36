"""The run in short: every dtype at its own tolerance and at the next tighter one of the list, told alike.

What decides verdicts is one tolerance, and most candidates are fp32. A reader who sees that alone may take for a
property of the kernels what is one of the setting; so all of them stand side by side, the ones without data too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kbverified import metrics
from kbverified.leaderboard.estimates import mean_estimate, share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Best, Scope
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import by_dtype, generators_in, note_for, suites_of
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.tolerance_sweep import TEST, curve, taus_of

TOPIC = "headline"


@dataclass(frozen=True)
class Line:
    """One generator on one suite, under one setting."""

    generator: str
    correctness: Estimate
    correct_speedup: Estimate
    fast_1: Estimate


@dataclass(frozen=True)
class Setting:
    """A dtype and a tolerance on one suite, and what the generators of that dtype did there; perhaps none."""

    dtype: str
    tau: float
    scope: Scope
    lines: tuple[Line, ...]


def dtypes(inputs: PaperInputs) -> list[str]:
    """Those with a tolerance, fp32 first."""
    return sorted(inputs.settings.tau, key=lambda dtype: (dtype != "fp32", dtype))


def taus(inputs: PaperInputs, dtype: str) -> list[float]:
    """The dtype's own tolerance, then the next tighter one of the list, where there is one that the dtype can meet."""
    own = inputs.settings.tau[dtype]
    return [own, *[tau for tau in taus_of(inputs, dtype) if tau < own][:1]]


@lru_cache(maxsize=1)
def settings(inputs: PaperInputs) -> list[Setting]:
    """Every suite, dtype and tolerance, in this order."""
    arm = inputs.leaderboard.conditions.headline_arm
    found = []
    for scope in (per_test[TEST] for per_test in suites_of(inputs)):
        for dtype in dtypes(inputs):
            names = [n for n in by_dtype(inputs).get(dtype, ()) if n in generators_in(inputs, scope.suite)]
            wanted = taus(inputs, dtype)
            best = {name: curve(inputs.rows[name], scope, arm, TEST, wanted) for name in names}
            for i, tau in enumerate(wanted):
                lines = [_line(name, best[name][i], scope, inputs) for name in names]
                found.append(Setting(dtype, tau, scope, tuple(lines)))
    return found


def _line(generator: str, best: Best, scope: Scope, inputs: PaperInputs) -> Line:
    speedups = best.column(f"speedup_{inputs.leaderboard.conditions.headline_arm}")
    untimed = any(best.solved) and all(value is None for value in speedups)
    why = "no problem that it solves has a speedup in this arm" if untimed else None
    return Line(
        generator,
        share_estimate(best.solved, scope, None, inputs.settings),
        mean_estimate(speedups, scope, why or "it solves no problem", inputs.settings),
        share_estimate(metrics.above(speedups, 1.0), scope, why, inputs.settings),
    )


def tables(inputs: PaperInputs) -> list[Table]:
    columns = (
        Column("suite", "suite"),
        Column("dtype", "dtype"),
        Column("tau", "tau", kind="number"),
        Column("generator", "generator"),
        Column("n_problems", "active", kind="count"),
        Column("correctness", "correct", kind="percent", interval=True),
        Column("n_timed", "timed", kind="count"),
        Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
        Column("fast_1", "fast_1", kind="percent", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for s in settings(inputs):
        key = (s.scope.suite, s.dtype, s.tau)
        n = len(s.scope.problems)
        rows += [
            (*key, x.generator, n, x.correctness, x.correct_speedup.n, x.correct_speedup, x.fast_1) for x in s.lines
        ]
        if not s.lines:
            rows.append((*key, None, n, None, None, None, None))
    c = inputs.leaderboard.conditions
    note = (
        "Every dtype at the tolerance that decides its verdicts, and at the next tighter one that it can meet at all. "
        "All levels, best of N. "
        f"A row of dashes: no generator was evaluated in that dtype. {note_for(inputs, arm=c.headline_arm, test=TEST)}"
    )
    return [Table("headline", "The run in short: each dtype and tolerance alike", note, columns, tuple(rows))]


def findings(inputs: PaperInputs) -> list[Finding]:
    """Of each setting, of each generator: whether it is faster than the reference on average, and what it solves."""
    made = []
    for s in settings(inputs):
        where = f"{len(s.scope.problems)} active problems of {s.scope.suite}"
        arm = inputs.leaderboard.conditions.headline_arm
        said = conditions(inputs, arm=arm, test=TEST, dtype=s.dtype, tau=s.tau, problems=where)
        if not s.lines:
            sentence = f"Nothing was measured in {s.dtype} at tau {s.tau:g}: no generator was evaluated in {s.dtype}."
            made.append(Finding(TOPIC, sentence, said, None, None, "not measured"))
        for x in s.lines:
            made += [
                claim(TOPIC, f"the Correct Speedup of {x.generator}", x.correct_speedup, 1.0, said),
                report(TOPIC, f"the share of problems that {x.generator} solves", x.correctness, said, form="percent"),
            ]
    return made
