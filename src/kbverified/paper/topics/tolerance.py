"""Correctness and Correct Speedup at any tolerance, and what tightening it does to the set of problems in the mean.

A tighter tau does two things to Correct Speedup. On a problem that stays solved, a slower and more exact sample may
win: the mean can only fall. And problems that are no longer solved leave the mean: where they were the slow ones it
rises, and nothing has become faster. The second is the *selection effect*, and it is shown apart: beside each mean
over the problems solved at that tau stands the mean over those solved at every tau of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from kbverified.leaderboard.model import Estimate
from kbverified.metrics import Arm
from kbverified.paper.finding import Direction, Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import by_dtype, level_word, note_for, place
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics import tolerance_figures
from kbverified.paper.topics.tolerance_sweep import (
    NOTHING,
    TEST,
    Change,
    Swept,
    changes,
    mean,
    solved_share,
    sweep,
    taus_of,
    whole_suites,
)

TOPIC = "tolerance"

# --- tables -------------------------------------------------------------------------------------------------

_KEY = tuple(Column(name, name) for name in ("suite", "level", "dtype", "generator"))


def tables(inputs: PaperInputs) -> list[Table]:
    """Every generator at every tau, in the headline arm and in the published one, and what tightening does."""
    headline = inputs.settings.headline_arm
    swept = sweep(inputs)
    return [
        _at_each_tau("tolerance", swept[headline], headline, inputs),
        _at_each_tau("tolerance_published", swept["published"], "published", inputs),
        _selection(swept[headline], inputs),
    ]


def _note(swept: Sequence[Swept], arm: Arm, inputs: PaperInputs, text: str) -> str:
    missing = "" if swept else f"Nothing to show: {NOTHING}. "
    lists = "; ".join(f"{d}: {', '.join(f'{t:g}' for t in taus_of(inputs, d))}" for d in by_dtype(inputs))
    return f"{missing}{text} The list of tau: {lists or 'none'}. {note_for(inputs, arm=arm, test=TEST)}"


def _at_each_tau(name: str, swept: Sequence[Swept], arm: Arm, inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("tau", "tau", kind="number"),
        Column("problems", "active problems", kind="count"),
        Column("correctness", "correct", kind="percent", interval=True),
        Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
        Column("timed", "of n", kind="count"),
        Column("common_correct_speedup", "on common problems", kind="factor", interval=True),
        Column("common", "of n", kind="count"),
        Column("timed_beyond", "timed beyond tau", kind="count"),
    )
    rows: list[tuple[Cell, ...]] = []
    for part in swept:
        for tau in part.taus:
            own, common = mean(part.own(tau), part, inputs), mean(part.common(tau), part, inputs)
            rows.append(
                (
                    *_cells(part),
                    tau,
                    len(part.scope.problems),
                    solved_share(part, tau, inputs),
                    own,
                    own.n,
                    common,
                    common.n,
                    part.timed_beyond(tau),
                )
            )
    text = (
        "Verdicts at each tau from critical tolerances; nothing was rerun. Correct Speedup is over the n problems that "
        "are solved and timed at this tau, then over the common ones, which are so at every tau of the list: the first "
        "can rise as tau gets tighter because problems leave it. Timed beyond tau: winners whose output in a timed "
        "launch, where TF32 may be on, needs more than tau; no verdict."
    )
    title = f"Correctness and Correct Speedup by tolerance, {arm} arm"
    return Table(name, title, _note(swept, arm, inputs, text), columns, tuple(rows))


def _selection(swept: Sequence[Swept], inputs: PaperInputs) -> Table:
    arm = inputs.settings.headline_arm
    columns = (
        *_KEY,
        Column("tau_from", "from tau", kind="number"),
        Column("tau_to", "to tau", kind="number"),
        Column("dropped", "problems dropped", kind="count"),
        Column("change", "change of Correct Speedup", kind="factor", interval=True),
        Column("change_same", "on the same problems", kind="factor", interval=True),
        Column("selection", "by selection", kind="factor", interval=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (*_cells(part), c.loose, c.tight, c.dropped, c.whole, c.same, c.selection) for part, c in changes(inputs)
    ]
    text = (
        "Factors by which Correct Speedup changes from one tau to a tighter one: as reported, each mean over its own "
        "problems; on the problems solved and timed at both; and by selection: the mean at the looser tau over the "
        "problems that stay, divided by that over all. The first is the product of the other two. Above 1 in the last "
        "column: the mean rises because problems are dropped."
    )
    title = f"What a tighter tolerance does to Correct Speedup, {arm} arm"
    return Table("tolerance_selection", title, _note(swept, arm, inputs, text), columns, tuple(rows))


def _cells(part: Swept) -> tuple[str, str, str, str]:
    return part.scope.suite, level_word(part.scope.level), part.dtype, part.generator


# --- figures and findings -----------------------------------------------------------------------------------


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    """Curves over a continuous tau, a panel per generator: what is solved, and Correct Speedup with its selection."""
    swept = whole_suites(inputs)
    return {
        "tolerance_correctness": tolerance_figures.correctness(swept, inputs),
        "tolerance_speedup": tolerance_figures.speedup(swept, inputs),
    }


def findings(inputs: PaperInputs) -> list[Finding]:
    """Per generator and suite, from each tau of the list to the next: what tightening does, and what selection does.

    The numbers at single taus are said by the topic headline, and stand in the tables.
    """
    if not whole_suites(inputs):
        nothing = Estimate(value=None, n=0, why_null=NOTHING)
        return [report(TOPIC, "the influence of the tolerance", nothing, conditions(inputs, test=TEST))]
    whole = [(part, change) for part, change in changes(inputs) if part.scope.level is None]
    return [finding for part, change in whole for finding in _of_one(part, change, inputs)]


def _of_one(part: Swept, change: Change, inputs: PaperInputs) -> Iterator[Finding]:
    name, where = part.generator, place(inputs, part.scope.suite, part.scope.level)
    span = f"from tau {change.loose:g} to {change.tight:g} ({where})"
    problems = (
        f"tau {change.loose:g} and {change.tight:g}, {part.dtype}, {len(part.scope.problems)} active problems of "
    )
    under = conditions(inputs, arm=part.arm, test=TEST, problems=f"{problems}{part.scope.suite}")
    direction: Direction = "above" if (change.whole.value or 1.0) >= 1.0 else "below"
    subject = f"the factor by which the Correct Speedup of {name}, over the problems solved at each, changes {span}"
    yield claim(TOPIC, subject, change.whole, 1.0, under, direction=direction)
    if change.dropped or change.selection.value is None:
        subject = f"the factor by which dropping problems alone changes the Correct Speedup of {name} {span}"
        yield claim(TOPIC, subject, change.selection, 1.0, under)
    else:
        sentence = f"No problem that {name} solves is dropped {span}: its Correct Speedup has no selection effect."
        yield Finding(TOPIC, sentence, under, change.selection, 1.0, "does not hold")
    subject = f"the factor by which the Correct Speedup of {name} changes on the same problems {span}"
    yield claim(TOPIC, subject, change.same, 1.0, under, direction="below")
