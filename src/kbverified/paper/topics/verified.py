"""The verified leaderboard: correctness, Correct Speedup and fast_p under the headline arm and test, per dtype.

Every number is an entry's of the leaderboard; only the comparison of one generator with the next is made here, on the
problems that both solved and on the same resamples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kbverified.leaderboard.build import common_of
from kbverified.leaderboard.model import Common, Entry, Estimate
from kbverified.paper.contrasts import mean_of_ratios
from kbverified.paper.finding import Finding, claim, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    best,
    by_dtype,
    conditions_for,
    entries_of,
    generators_in,
    headline_entries,
    level_word,
    models,
    note_for,
    place,
    speedups,
    suites_of,
)
from kbverified.paper.table import Cell, Column, Table

TOPIC = "verified"
DTYPES = ("fp32", "bf16")

_KEY = (Column("generator", "generator"), Column("suite", "suite"), Column("level", "level"))


def headline(inputs: PaperInputs, generators: Sequence[str] | None = None) -> list[Entry]:
    """Entries of the headline arm and test, ranked; of all generators, or of some."""
    c = inputs.leaderboard.conditions
    wanted = models(inputs) if generators is None else generators
    shown = headline_entries(inputs)
    order = [(suite, name) for suite in c.suites for name in ranked(inputs, suite) if name in wanted]
    return [e for key in order for e in shown if (e.suite, e.generator) == key]


def ranked(inputs: PaperInputs, suite: str) -> list[str]:
    """Generators of a suite, the one with the largest fast_1 over all levels first; those without it come last.

    fast_1 and not Correct Speedup, since its denominator is the same for all: to solve fewer problems cannot help.
    """
    c = inputs.leaderboard.conditions

    def rank(name: str) -> float:
        entry = inputs.leaderboard.entry(name, suite, None, c.headline_arm, c.headline_test)
        first = fast_1(entry) if entry else None
        return -first.value if first and first.value is not None else 1.0

    return sorted(models(inputs), key=rank)


def fast_1(entry: Entry) -> Estimate:
    """fast_1 of an entry, or the correctness where the settings leave fast_1 out."""
    return entry.fast_p.get("1", entry.correctness)


def tables(inputs: PaperInputs) -> list[Table]:
    return [*(_table(inputs, dtype) for dtype in DTYPES), _fast_p(inputs), _common(inputs)]


_COLUMNS = (
    *_KEY,
    Column("n_problems", "active", kind="count"),
    Column("n_without_candidate", "no candidate", kind="count"),
    Column("n_samples", "samples", kind="count"),
    Column("n_solved", "solved", kind="count"),
    Column("correctness", "correct", kind="percent", interval=True),
    Column("n_timed", "timed", kind="count"),
    Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
    Column("fast_1", "fast_1", kind="percent", interval=True),
)


def _table(inputs: PaperInputs, dtype: str) -> Table:
    c = inputs.leaderboard.conditions
    names = by_dtype(inputs).get(dtype, [])
    rows: list[tuple[Cell, ...]] = [
        (
            *_key(e),
            e.n_problems,
            e.n_without_candidate,
            e.n_samples,
            e.n_solved,
            e.correctness,
            e.n_timed,
            e.correct_speedup,
            e.fast_p.get("1"),
        )
        for e in headline(inputs, names)
    ]
    note = [
        "Best of N samples per problem. correct and fast_1 are shares of all active problems; Correct Speedup is the "
        "geometric mean over the problems that are solved and timed. In the order of fast_1 over all levels.",
        note_for(inputs, arm=c.headline_arm, test=c.headline_test),
    ]
    if not names:
        note.insert(0, f"No generator was evaluated in {dtype}.")
    if "1" not in {p for e in entries_of(inputs) for p in e.fast_p}:
        note.append("fast_1 is not among the thresholds of the configuration.")
    kinds = {name: inputs.dtypes[name] for name in models(inputs)}
    if odd := [f"{name} ({kind or 'nothing evaluated'})" for name, kind in kinds.items() if kind not in DTYPES]:
        note.append(f"In neither dtype's table: {', '.join(odd)}.")
    return Table(f"verified_{dtype}", f"Verified leaderboard, {dtype}", " ".join(note), _COLUMNS, tuple(rows))


def _key(e: Entry) -> tuple[str, str, str]:
    return e.generator, e.suite, level_word(e.level)


def _fast_p(inputs: PaperInputs) -> Table:
    """fast_p at every threshold of the settings, all dtypes."""
    c = inputs.leaderboard.conditions
    thresholds = [f"{p:g}" for p in inputs.settings.fast_p]
    columns = (
        *_KEY,
        Column("dtype", "dtype"),
        Column("n_problems", "active", kind="count"),
        *(Column(f"fast_{p}", f"fast_{p}", kind="percent", interval=True) for p in thresholds),
    )
    rows = tuple((*_key(e), e.dtype, e.n_problems, *(e.fast_p.get(p) for p in thresholds)) for e in headline(inputs))
    note = "fast_p: share of all active problems whose fastest verified sample has a speedup strictly above p. A dash "
    note += f"for a dtype: nothing was evaluated. {note_for(inputs, arm=c.headline_arm, test=c.headline_test)}"
    return Table("verified_fast_p", "fast_p at several thresholds", note, columns, rows)


def common_of_models(inputs: PaperInputs) -> list[Common]:
    """As the leaderboard's, under the headline arm and test, of models alone: renamed references are timed on some
    problems only, and would leave only those to all."""
    arm, test = inputs.leaderboard.conditions.headline_arm, inputs.leaderboard.conditions.headline_test
    found = []
    for scope in (per_test[test] for per_test in suites_of(inputs)):
        winners = {name: best(inputs, name, scope, arm, test) for name in generators_in(inputs, scope.suite)}
        found += common_of(winners, inputs.dtypes, scope, arm, test, inputs.settings)
    return found


def _common(inputs: PaperInputs) -> Table:
    """Generators on the problems that all of them solved."""
    c = inputs.leaderboard.conditions
    columns = (
        Column("suite", "suite"),
        Column("dtype", "dtype"),
        Column("generator", "generator"),
        Column("n_problems", "problems solved by all", kind="count"),
        Column("correct_speedup", "Correct Speedup there", kind="factor", interval=True),
    )
    rows = tuple(
        (common.suite, common.dtype, name, common.n_problems, common.correct_speedup[name])
        for common in common_of_models(inputs)
        for name in ranked(inputs, common.suite)
        if name in common.correct_speedup
    )
    note = "Generators of one dtype, on the problems that each of them solved and has a speedup for."
    if not rows:
        note += " There are no two generators of one dtype."
    note += " " + note_for(inputs, arm=c.headline_arm, test=c.headline_test)
    return Table("verified_common", "Correct Speedup on the problems that all solved", note, columns, rows)


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    return [*_means(inputs), *_neighbours(inputs)]


def _means(inputs: PaperInputs) -> list[Finding]:
    """Whether each generator is below 1x, per level and overall, how much it solves, and how often it is faster."""
    found = []
    for e in headline(inputs):
        where = place(inputs, e.suite, e.level)
        under = conditions_for(inputs, e, arm=e.arm, test=e.test, generator=e.generator)
        speed = f"the Correct Speedup of {e.generator} on {where}"
        found.append(claim(TOPIC, speed, e.correct_speedup, 1.0, under, direction="below"))
        if e.level is None:
            solved = f"the share of active problems that {e.generator} solves on {where}"
            found.append(report(TOPIC, solved, e.correctness, under, form="percent"))
            if "1" in e.fast_p:
                faster = f"the share of active problems on which {e.generator} is faster than the baseline, on {where},"
                found.append(claim(TOPIC, faster, e.fast_p["1"], 0.5, under, form="percent"))
    return found


def _neighbours(inputs: PaperInputs) -> list[Finding]:
    """Each generator against the next one in the ranking of its dtype, on the problems that both solved."""
    c = inputs.leaderboard.conditions
    arm, test = c.headline_arm, c.headline_test
    found = []
    for scope in (per_test[test] for per_test in suites_of(inputs)):
        order = [e.generator for e in headline(inputs) if (e.suite, e.level) == (scope.suite, None)]
        for names in by_dtype(inputs).values():
            ranking = [name for name in order if name in names]
            speed = {name: speedups(inputs, name, scope, arm, test) for name in ranking}
            for first, second in itertools.pairwise(ranking):
                ratio = mean_of_ratios(speed[first], speed[second], scope, inputs.settings)
                under = conditions_for(inputs, scope, arm=arm, test=test, generator=first)
                subject = (
                    f"the speed of {first} over that of {second}, on the problems of {place(inputs, scope.suite, None)}"
                )
                found.append(claim(TOPIC, f"{subject} that both solved,", ratio, 1.0, under))
    return found
