"""Before and after: how far each generator's headline number falls, and through which of the steps.

*Before* is what KernelBench's own protocol would report (naive arm, standard test), *published* the protocol of
KernelBench-Verified (published arm, hidden test), *after* the matched arm under the hidden test. Between before and
after lie three steps: the baseline gets TF32, the candidate gets it too, and the hidden tests take candidates away.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbverified.leaderboard.headline import ARM_MEANING
from kbverified.paper.finding import Finding, claim
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import conditions_for, level_word, note_for, place
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.deflation_falls import AFTER, BEFORE, PUBLISHED, STEPS, Fall, falls, words
from kbverified.paper.topics.deflation_figures import figures

__all__ = ["TOPIC", "figures", "findings", "tables"]

TOPIC = "deflation"


# --- tables -------------------------------------------------------------------------------------------------


def tables(inputs: PaperInputs) -> list[Table]:
    found = falls(inputs)
    return [_headlines(inputs, found), _steps(inputs, found)]


_KEY = (
    Column("generator", "generator"),
    Column("dtype", "dtype"),
    Column("suite", "suite"),
    Column("level", "level"),
    Column("n_problems", "active", kind="count"),
)


def _key(inputs: PaperInputs, fall: Fall) -> tuple[Cell, ...]:
    scope = fall.scope
    return fall.generator, inputs.dtypes[fall.generator], scope.suite, level_word(scope.level), len(scope.problems)


def _with_n(name: str, header: str) -> list[Column]:
    return [Column(name, header, kind="factor", interval=True), Column(f"n_{name}", "n", kind="count")]


def _headlines(inputs: PaperInputs, found: Sequence[Fall]) -> Table:
    columns = [*_KEY]
    for name in ("before", "published", "after"):
        columns += _with_n(name, name)
    columns += _with_n("fall", "after / before")
    columns += _with_n("fall_shared", "same problems")
    rows: list[tuple[Cell, ...]] = []
    for fall in found:
        cells: list[Cell] = [*_key(inputs, fall)]
        estimates = (*(fall.stations[s] for s in (BEFORE, PUBLISHED, AFTER)), fall.fall, fall.fall_shared)
        for estimate in estimates:
            cells += [estimate, estimate.n]
        rows.append(tuple(cells))
    note = (
        f"Correct Speedup before ({words(BEFORE)}), under the published protocol ({words(PUBLISHED)}) and after "
        f"({words(AFTER)}), over the n problems that are solved and timed there; after / before is the ratio of "
        "the two means, each over its own problems (n: the fewer of the two), same problems the geometric mean of the "
        "ratios on the problems that have both. Where the two differ, the hidden tests changed which problems count. "
        f"{_arms(inputs)}"
    )
    return Table("deflation", "Before and after", note, tuple(columns), tuple(rows))


def _steps(inputs: PaperInputs, found: Sequence[Fall]) -> Table:
    columns = [*_KEY]
    for step, _, _ in STEPS:
        columns += _with_n(step, step)
    columns += _with_n("hidden_shared", "hidden, same problems")
    columns += _with_n("hardened_shared", "hardened, same problems")
    columns += _with_n("from_published", "after / published")
    rows: list[tuple[Cell, ...]] = []
    for fall in found:
        cells: list[Cell] = [*_key(inputs, fall)]
        shared = (fall.hidden_shared, fall.hardened_shared, fall.from_published)
        for estimate in (*(fall.steps[step] for step, _, _ in STEPS), *shared):
            cells += [estimate, estimate.n]
        rows.append(tuple(cells))
    steps = "; ".join(f"{step}: {words(end)} / {words(start)}" for step, start, end in STEPS)
    note = (
        f"Ratios of Correct Speedups, paired by problem. {steps}. baseline: the reference gets TF32; precision: the "
        "candidate gets it too; hidden: the hidden tests take candidates away. The three multiply to after / before. "
        "same problems: geometric mean of the ratios on problems that have both, of hidden, and of hardened to hidden "
        f"in the matched arm. after / published: {words(AFTER)} / {words(PUBLISHED)}. n counts problems. "
        f"{_arms(inputs)}"
    )
    return Table("deflation_steps", "Steps from before to after", note, tuple(columns), tuple(rows))


def _arms(inputs: PaperInputs) -> str:
    arms = "; ".join(f"{arm}, {ARM_MEANING[arm]}" for arm in ("naive", "published", "matched"))
    return f"Arms: {arms}. {note_for(inputs)}"


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    """How far each generator falls: overall in every way it can be read, per level after / before alone."""
    return [finding for fall in falls(inputs) for finding in _of_one(inputs, fall)]


def _of_one(inputs: PaperInputs, fall: Fall) -> list[Finding]:
    name, scope = fall.generator, fall.scope
    where = place(inputs, scope.suite, scope.level)
    under = conditions_for(inputs, scope, generator=name)
    speed = f"the Correct Speedup of {name}"
    after, before, published = (f"{arm} arm, {test} test" for arm, test in (AFTER, BEFORE, PUBLISHED))
    fell = claim(
        TOPIC, f"{speed} ({after}) over that before ({before}), on {where},", fall.fall, 1.0, under, direction="below"
    )
    if scope.level is not None:
        return [fell]
    same = f"{speed} ({after}) over that before ({before}), problem by problem where both have one, on {where},"
    over = f"{speed} ({after}) over that of the published protocol ({published}), on {where},"
    return [
        claim(TOPIC, f"{speed} before ({before}) on {where}", fall.stations[BEFORE], 1.0, under),
        fell,
        claim(TOPIC, same, fall.fall_shared, 1.0, under, direction="below"),
        claim(TOPIC, over, fall.from_published, 1.0, under, direction="below"),
    ]
