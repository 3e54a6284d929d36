"""Correctness and Correct Speedup at any tolerance, and what tightening it does to the set of problems in the mean.

Verdicts at another tau come from the critical tolerances in the kernel table, by the aggregation's own rule
(tau_sweep.py): nothing reruns. All of it is the hidden test.

A tighter tau does two things to Correct Speedup. On a problem that stays solved, a slower and more exact sample may
win: the mean can only fall. And problems that are no longer solved leave the mean: where they were the slow ones it
rises, and nothing has become faster. The second is the *selection effect*, and it is shown apart: beside each mean
over the problems solved at that tau stands the mean over those solved at every tau of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.figure import Figure

from kbverified import tau_sweep
from kbverified.leaderboard.build import Best, Scope, best_samples, mean_estimate, share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.metrics import Arm, within_tolerance
from kbverified.paper.contrasts import mean_ratio
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs, Row
from kbverified.paper.scopes import by_dtype, generators_in, level_word, mean_of_ratios, note_for, place, scopes_of
from kbverified.paper.table import Cell, Column, Table
from kbverified.roofline.columns import claim_stage
from kbverified.verdicts import Test

TOPIC = "tolerance"
TEST: Test = "hidden"
NOTHING = "no generator has a candidate that was evaluated in one dtype"


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

    The configuration's list is meant for fp32. For bf16 it is moved by the factor between their own tolerances.
    """
    own = inputs.settings.tau
    factor = own[dtype] / own["fp32"] if dtype in own and "fp32" in own else 1.0
    moved = {float(f"{tau * factor:.6g}") for tau in inputs.taus}
    return tuple(sorted(moved | ({own[dtype]} if dtype in own else set()), reverse=True))


def sweep(inputs: PaperInputs, *arms: Arm) -> list[list[Swept]]:
    """Per arm: every generator on every level and suite that it has candidates in, level by level."""
    found: list[list[Swept]] = [[] for _ in arms]
    dtype_of = {name: dtype for dtype, names in by_dtype(inputs).items() for name in names}
    at = {
        name: {tau: tau_sweep.rows_at(inputs.rows[name], {d: tau}, inputs.problems) for tau in taus_of(inputs, d)}
        for name, d in dtype_of.items()
    }
    for per_test in scopes_of(inputs):
        scope = per_test[TEST]
        for name in generators_in(inputs, scope.suite):
            here = {tau: _within(rows, scope) for tau, rows in at.get(name, {}).items()}
            for arm, of_arm in zip(arms, found, strict=True):
                if here:
                    best = {tau: best_samples(rows, scope.problems, arm, TEST) for tau, rows in here.items()}
                    of_arm.append(Swept(name, dtype_of[name], scope, arm, best))
    return found


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


def changes(swept: Swept, inputs: PaperInputs) -> Iterator[Change]:
    """From each tau of the list to the next tighter one."""
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
    return share_estimate(swept.best[tau].solved, swept.scope, None, inputs.settings)


def mean(values: Sequence[float | None], swept: Swept, inputs: PaperInputs) -> Estimate:
    """Correct Speedup over the problems of the scope that have a value."""
    return mean_estimate(values, swept.scope, "no problem of these is solved and timed", inputs.settings)


# --- tables -------------------------------------------------------------------------------------------------

_KEY = tuple(Column(name, name) for name in ("suite", "level", "dtype", "generator"))


def tables(inputs: PaperInputs) -> list[Table]:
    """Every generator at every tau, in the headline arm and in the published one, and what tightening does."""
    headline = inputs.settings.headline_arm
    swept, published = sweep(inputs, headline, "published")
    return [
        _at_each_tau("tolerance", swept, headline, inputs),
        _at_each_tau("tolerance_published", published, "published", inputs),
        _selection(swept, headline, inputs),
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


def _selection(swept: Sequence[Swept], arm: Arm, inputs: PaperInputs) -> Table:
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
        (*_cells(part), c.loose, c.tight, c.dropped, c.whole, c.same, c.selection)
        for part in swept
        for c in changes(part, inputs)
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
    from kbverified.paper.topics import tolerance_figures

    swept = _whole_suites(inputs)
    return {
        "tolerance_correctness": tolerance_figures.correctness(swept, inputs),
        "tolerance_speedup": tolerance_figures.speedup(swept, inputs),
    }


def findings(inputs: PaperInputs) -> list[Finding]:
    """Per generator and suite: every tau of the list side by side, then what tightening does."""
    swept = _whole_suites(inputs)
    if not swept:
        nothing = Estimate(value=None, n=0, why_null=NOTHING)
        return [report(TOPIC, "the influence of the tolerance", nothing, conditions(inputs, test=TEST))]
    return [finding for part in swept for finding in _of_one(part, inputs)]


def _whole_suites(inputs: PaperInputs) -> list[Swept]:
    (swept,) = sweep(inputs, inputs.settings.headline_arm)
    return [part for part in swept if part.scope.level is None]


def _of_one(part: Swept, inputs: PaperInputs) -> Iterator[Finding]:
    name, where = part.generator, place(inputs, part.scope.suite, part.scope.level)
    problems = f"{len(part.scope.problems)} active problems of {part.scope.suite}"

    def under(tau: float | None, arm: Arm | None = part.arm) -> str:
        words = conditions(inputs, arm=arm, test=TEST, tau=tau, problems=problems)
        return f"{part.dtype}, {words}"

    for tau in part.taus:
        subject = f"the share of problems that {name} solves at tau {tau:g} ({where})"
        yield report(TOPIC, subject, solved_share(part, tau, inputs), under(tau, None), form="percent")
    for tau in part.taus:
        subject = f"the Correct Speedup of {name} at tau {tau:g}, over the problems that it solves there ({where}),"
        yield claim(TOPIC, subject, mean(part.own(tau), part, inputs), 1.0, under(tau))
    for change in changes(part, inputs):
        span = f"from tau {change.loose:g} to {change.tight:g} ({where})"
        subject = f"the factor by which dropping problems alone changes the Correct Speedup of {name} {span}"
        if change.dropped:
            yield claim(TOPIC, subject, change.selection, 1.0, under(None))
        elif change.selection.value is not None:
            sentence = f"No problem that {name} solves is dropped {span}: its Correct Speedup has no selection effect."
            yield Finding(TOPIC, sentence, under(None), change.selection, 1.0, "does not hold")
        subject = f"the factor by which the Correct Speedup of {name} changes on the same problems {span}"
        yield claim(TOPIC, subject, change.same, 1.0, under(None), direction="below")
