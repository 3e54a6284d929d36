"""What the arm and the test do to the headline numbers: every arm under every test, per generator and level."""

from __future__ import annotations

from kbverified.leaderboard.headline import ARM_MEANING
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.metrics import Arm
from kbverified.paper.contrasts import mean_ratio, with_reasons
from kbverified.paper.finding import Direction, Finding, claim
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    conditions_for,
    entries_of,
    generators_in,
    level_word,
    note_for,
    place,
    speedups,
    suites_of,
    why_arms_alike,
)
from kbverified.paper.table import Cell, Column, Table
from kbverified.verdicts import TESTS, Test

TOPIC = "arms"


def tests_there(inputs: PaperInputs) -> tuple[Test, ...]:
    """The tests that gave any candidate a verdict; standard and hidden always."""
    rows = [row for of_one in inputs.rows.values() for row in of_one]
    return tuple(t for t in TESTS if t != "hardened" or any(row["verdict_hardened"] is not None for row in rows))


def tables(inputs: PaperInputs) -> list[Table]:
    return [_speedups(inputs), _faster(inputs)]


_KEY = (
    Column("generator", "generator"),
    Column("dtype", "dtype"),
    Column("suite", "suite"),
    Column("level", "level"),
    Column("test", "test"),
    Column("n_problems", "active", kind="count"),
    Column("n_solved", "solved", kind="count"),
)


def by_test(inputs: PaperInputs) -> list[dict[str, Entry]]:
    """Entries of one generator, level and test together, by arm; in the order generator, level, test."""
    found: dict[tuple[str, str, int | None, Test], dict[str, Entry]] = {}
    shown = tests_there(inputs)
    for e in entries_of(inputs):
        if e.test in shown:
            found.setdefault((e.generator, e.suite, e.level, e.test), {})[e.arm] = e
    return list(found.values())


def _row_key(e: Entry) -> tuple[Cell, ...]:
    return e.generator, e.dtype, e.suite, level_word(e.level), e.test, e.n_problems, e.n_solved


def _speedups(inputs: PaperInputs) -> Table:
    arms = inputs.leaderboard.conditions.arms
    columns = [*_KEY]
    for arm in arms:
        columns.append(Column(f"correct_speedup_{arm}", arm, kind="factor", interval=True))
        columns.append(Column(f"n_{arm}", f"n {arm}", kind="count"))
    rows: list[tuple[Cell, ...]] = []
    for entries in by_test(inputs):
        cells: list[Cell] = []
        for arm in arms:
            cells += [entries[arm].correct_speedup, entries[arm].correct_speedup.n]
        rows.append((*_row_key(entries[arms[0]]), *cells))
    title = "Correct Speedup by arm and test"
    note = (
        "Correct Speedup, the geometric mean over the n problems that are solved under the test and timed in the arm; "
        f"best of N is chosen per arm. {_note(inputs)}"
    )
    return Table("arms", title, note, tuple(columns), tuple(rows))


def _faster(inputs: PaperInputs) -> Table:
    arms = inputs.leaderboard.conditions.arms
    columns = (*_KEY, *(Column(f"fast_1_{arm}", arm, kind="percent", interval=True) for arm in arms))
    rows = tuple(
        (*_row_key(entries[arms[0]]), *(entries[arm].fast_p.get("1") for arm in arms)) for entries in by_test(inputs)
    )
    note = (
        "fast_1: share of all active problems whose fastest verified sample is strictly faster than the baseline. A "
        f"dash without a reason: fast_1 is not among the thresholds of the configuration. {_note(inputs)}"
    )
    return Table("arms_fast_1", "fast_1 by arm and test", note, columns, rows)


def _note(inputs: PaperInputs) -> str:
    arms = inputs.leaderboard.conditions.arms
    what = "Arms: " + "; ".join(f"{arm}, {ARM_MEANING[arm]}" for arm in arms) + "."
    if "hardened" in tests_there(inputs):
        what += " Hardened leaves out the problems on which it cannot decide."
    else:
        what += " No candidate has a verdict of the hardened test."
    return f"{what} {note_for(inputs)}"


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    """What an arm's choice is worth: naive and published against matched, under the hidden test."""
    found = []
    expected: tuple[tuple[Arm, Direction], ...] = (("naive", "above"), ("published", "below"))
    for scope in (per_test["hidden"] for per_test in suites_of(inputs)):
        for name in generators_in(inputs, scope.suite):
            matched = speedups(inputs, name, scope, "matched", "hidden")
            under = conditions_for(inputs, scope, test="hidden", generator=name)
            where = place(inputs, scope.suite, None)
            for arm, direction in expected:
                ratio = mean_ratio(speedups(inputs, name, scope, arm, "hidden"), matched, scope, inputs.settings)
                sides = (inputs.leaderboard.entry(name, scope.suite, None, a, "hidden") for a in (arm, "matched"))
                ratio = with_reasons(ratio, *(e.correct_speedup for e in sides if e is not None))
                if why := why_arms_alike(inputs, name):
                    ratio = Estimate(value=None, n=0, why_null=why)
                subject = f"the Correct Speedup of {name} in the {arm} arm over that in the matched arm, on {where},"
                found.append(claim(TOPIC, subject, ratio, 1.0, under, direction=direction))
    return found
