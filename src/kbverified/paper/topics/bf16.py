"""The bf16 control: what becomes of correctness and Correct Speedup where inputs and weights are bfloat16.

A bf16 run is a generator of its own (config/generators.tsv, column dtype). It is paired with the fp32 run of the same
model by name: the bf16 run of ``NAME`` is called ``NAME-bf16``. Where it is not, the two are paired that the
configuration (``paper.names``) gives one name, and no other fp32 run. Each side is judged at its own tau and timed
against a baseline of its own dtype, so a speedup in bf16 is over the reference in bf16. Modes have no effect on bf16:
its matched arm is taken from time-fp32, and the published and ieee arms are null; where one of those is the headline,
matched stands here. Means over all solved problems differ in their problems too: they stand beside those over common
ones, which both runs solve and have a time for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.figure import Figure

from kbverified.leaderboard.estimates import mean_estimate, share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Best, Scope
from kbverified.metrics import Arm
from kbverified.paper.contrasts import mean_of_ratios, share_difference
from kbverified.paper.finding import Direction, Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    best,
    by_dtype,
    generators_in,
    level_word,
    note_for,
    place,
)
from kbverified.paper.table import Cell, Column, Table
from kbverified.verdicts import Test

TOPIC = "bf16"
TEST: Test = "hidden"
SUFFIX = "-bf16"
NO_BF16 = (
    "no generator of dtype bf16 has a candidate; give a run of the same model a row NAME-bf16 with dtype bf16 in the "
    "table of generators"
)
NO_PAIR = f"no fp32 run is its counterpart: none has its name without {SUFFIX}, or alone its name in paper.names"


@dataclass(frozen=True)
class Control:
    """One bf16 run on one scope beside its fp32 run; ``fp32`` is None where there is no such run in the suite."""

    name: str
    """Of the fp32 run, or of the bf16 run where that has no counterpart."""
    scope: Scope
    arm: Arm
    bf16: Best
    fp32: Best | None

    def speedups(self, side: Best | None) -> list[float | None]:
        """A run's winners, per problem of the scope; None throughout for a run that is not there."""
        return [None] * len(self.scope.problems) if side is None else side.column(f"speedup_{self.arm}")

    def common(self, side: Best | None) -> list[float | None]:
        """The same where both runs have a speedup, None elsewhere."""
        both = zip(self.speedups(self.fp32), self.speedups(self.bf16), strict=True)
        everywhere = [None not in pair for pair in both]
        return [value if here else None for value, here in zip(self.speedups(side), everywhere, strict=True)]


def counterparts(inputs: PaperInputs) -> dict[str, str | None]:
    """Every bf16 run, in order, and the fp32 run that it is paired with; None where there is none."""
    runs = by_dtype(inputs)
    fp32 = list(runs.get("fp32", ()))
    found: dict[str, str | None] = {}
    for name in runs.get("bf16", ()):
        plain = name.removesuffix(SUFFIX)
        called = [other for other in fp32 if name in inputs.names and inputs.names.get(other) == inputs.names[name]]
        found[name] = plain if plain in fp32 else called[0] if len(called) == 1 else None
    return found


def arm_of(inputs: PaperInputs) -> Arm:
    """The headline arm, or matched where bf16 has none of it."""
    return "matched" if inputs.settings.headline_arm in ("published", "ieee") else inputs.settings.headline_arm


@lru_cache(maxsize=1)
def controls(inputs: PaperInputs) -> list[Control]:
    """Every bf16 run on every level and suite in which it has candidates."""
    arm, found = arm_of(inputs), []
    for per_test in inputs.scopes:
        scope = per_test[TEST]
        here = generators_in(inputs, scope.suite)
        for name, other in counterparts(inputs).items():
            if name in here:
                fp32 = best(inputs, other, scope, arm, TEST) if other is not None and other in here else None
                shown = name if fp32 is None or other is None else other
                found.append(Control(shown, scope, arm, best(inputs, name, scope, arm, TEST), fp32))
    return found


def solved(control: Control, side: Best | None, inputs: PaperInputs) -> Estimate:
    """Share of the active problems that a run solves."""
    hits = [] if side is None else side.solved
    return share_estimate(hits, control.scope, NO_PAIR if side is None else None, inputs.settings)


def solved_difference(control: Control, inputs: PaperInputs) -> Estimate:
    """Share of active problems solved in bf16 less that in fp32."""
    if control.fp32 is None:
        return Estimate(value=None, n=0, why_null=NO_PAIR)
    return share_difference(control.bf16.solved, control.fp32.solved, control.scope, inputs.settings)


def mean(control: Control, values: Sequence[float | None], inputs: PaperInputs) -> Estimate:
    """Correct Speedup over the problems of the scope that have a value."""
    why = NO_PAIR if control.fp32 is None else "no problem of these is solved and timed"
    return mean_estimate(values, control.scope, why, inputs.settings)


def factor(control: Control, inputs: PaperInputs) -> Estimate:
    """bf16 / fp32 of the speedups on common problems: how much more bf16 gains over its baseline."""
    if control.fp32 is None:
        return Estimate(value=None, n=0, why_null=NO_PAIR)
    sides = control.speedups(control.bf16), control.speedups(control.fp32)
    return mean_of_ratios(*sides, control.scope, inputs.settings)


# --- tables -------------------------------------------------------------------------------------------------

_KEY = (
    Column("suite", "suite"),
    Column("level", "level"),
    Column("generator", "generator"),
    Column("problems", "active problems", kind="count"),
)


def tables(inputs: PaperInputs) -> list[Table]:
    """Both runs over all that each solves, then over common problems."""
    found, note = controls(inputs), _note(inputs)
    return [_all_problems(found, note, inputs), _common_problems(found, note, inputs)]


def _note(inputs: PaperInputs) -> str:
    pairs = counterparts(inputs)
    text = f"Nothing to show: {NO_BF16}. " if not pairs else ""
    if alone := [name for name, other in pairs.items() if other is None]:
        text += f"Without an fp32 run: {', '.join(alone)}. "
    without = [name for name in by_dtype(inputs).get("fp32", ()) if name not in pairs.values()]
    if pairs and without:
        text += f"Without a bf16 run: {', '.join(without)}. "
    text += (
        f"The bf16 run of NAME is NAME{SUFFIX}, or has the same name in paper.names. Speedups in bf16 are "
        "over the reference in bf16, those in fp32 over that in fp32; for bf16 the matched arm is that of time-fp32, "
        "since precision modes have no effect. "
    )
    return text + note_for(inputs, arm=arm_of(inputs), test=TEST)


def _all_problems(found: Sequence[Control], note: str, inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("correctness_fp32", "correct fp32", kind="percent", interval=True),
        Column("correctness_bf16", "correct bf16", kind="percent", interval=True),
        Column("correctness_difference", "bf16 less fp32", kind="percent", interval=True),
        Column("correct_speedup_fp32", "Correct Speedup fp32", kind="factor", interval=True),
        Column("n_fp32", "of n", kind="count"),
        Column("correct_speedup_bf16", "Correct Speedup bf16", kind="factor", interval=True),
        Column("n_bf16", "of n", kind="count"),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        fp32, bf16 = (mean(one, one.speedups(side), inputs) for side in (one.fp32, one.bf16))
        shares = (solved(one, one.fp32, inputs), solved(one, one.bf16, inputs), solved_difference(one, inputs))
        rows.append((*_cells(one), *shares, fp32, fp32.n, bf16, bf16.n))
    return Table("bf16", "fp32 and bf16, each over the problems that it solves", note, columns, tuple(rows))


def _common_problems(found: Sequence[Control], note: str, inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("solved_both", "solved in both", kind="count"),
        Column("solved_fp32_only", "in fp32 only", kind="count"),
        Column("solved_bf16_only", "in bf16 only", kind="count"),
        Column("common", "common problems", kind="count"),
        Column("correct_speedup_fp32", "Correct Speedup fp32", kind="factor", interval=True),
        Column("correct_speedup_bf16", "Correct Speedup bf16", kind="factor", interval=True),
        Column("factor", "bf16 / fp32", kind="factor", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        if one.fp32 is None:
            counts: list[Cell] = [None, None, None]
        else:
            pairs = list(zip(one.fp32.solved, one.bf16.solved, strict=True))
            counts = [pairs.count((True, True)), pairs.count((True, False)), pairs.count((False, True))]
        fp32, bf16 = (mean(one, one.common(side), inputs) for side in (one.fp32, one.bf16))
        rows.append((*_cells(one), *counts, fp32.n, fp32, bf16, factor(one, inputs)))
    text = f"Common problems: solved and timed in both dtypes. A dash under counts: {NO_PAIR}. {note}"
    return Table("bf16_common", "fp32 and bf16 on common problems", text, columns, tuple(rows))


def _cells(control: Control) -> tuple[str, str, str, int]:
    return control.scope.suite, level_word(control.scope.level), control.name, len(control.scope.problems)


# --- figures and findings -----------------------------------------------------------------------------------


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    """Both runs side by side per level, and problem by problem."""
    from kbverified.paper.topics import bf16_figures

    found = [control for control in controls(inputs) if control.fp32 is not None and control.scope.problems]
    why = NO_BF16 if not counterparts(inputs) else f"every bf16 run: {NO_PAIR}"
    whole = [control for control in found if control.scope.level is None]
    return {
        "bf16": bf16_figures.side_by_side(found, why, inputs),
        "bf16_problems": bf16_figures.problem_by_problem(whole, why, inputs),
    }


def findings(inputs: PaperInputs) -> list[Finding]:
    """Per pair and suite: what bf16 does to correctness, and to Correct Speedup on common problems."""
    pairs = counterparts(inputs)
    if not pairs:
        nothing = Estimate(value=None, n=0, why_null=NO_BF16)
        return [report(TOPIC, "the bf16 control", nothing, conditions(inputs, test=TEST, dtype="bf16"))]
    whole = [control for control in controls(inputs) if control.scope.level is None]
    return [finding for control in whole for finding in _of_one(control, inputs)]


def _of_one(one: Control, inputs: PaperInputs) -> Iterator[Finding]:
    where = place(inputs, one.scope.suite, one.scope.level)
    tau = inputs.settings.tau
    taus = " and ".join(f"tau {tau[dtype]:g} ({dtype})" for dtype in ("fp32", "bf16") if dtype in tau)
    problems = f"{taus}, {len(one.scope.problems)} active problems of {one.scope.suite}"
    under = conditions(inputs, arm=one.arm, test=TEST, problems=problems)
    if one.fp32 is None:
        nothing = Estimate(value=None, n=0, why_null=NO_PAIR)
        yield report(TOPIC, f"the difference between fp32 and bf16 for {one.name} ({where})", nothing, under)
        return
    difference = solved_difference(one, inputs)
    subject = f"the share of problems that {one.name} solves in bf16, less that in fp32 ({where}),"
    direction: Direction = "below" if (difference.value or 0.0) <= 0 else "above"
    yield claim(TOPIC, subject, difference, 0.0, under, direction=direction, form="percent")
    for dtype, side in (("fp32", one.fp32), ("bf16", one.bf16)):
        subject = f"the Correct Speedup of {one.name} in {dtype}, on the problems solved in both dtypes ({where}),"
        yield claim(TOPIC, subject, mean(one, one.common(side), inputs), 1.0, under)
    subject = f"the factor from fp32 to bf16 of {one.name}'s speedups, on the problems solved in both ({where}),"
    yield claim(TOPIC, subject, factor(one, inputs), 1.0, under)
