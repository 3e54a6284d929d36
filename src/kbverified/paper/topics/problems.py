"""Problems to be left out or read apart: degenerate, constant, non-discriminating, undecidable, not applicable."""

from __future__ import annotations

from dataclasses import dataclass

from kbverified.aggregation import non_discriminating
from kbverified.hardened.verdict import undecidable
from kbverified.keys import ProblemKey
from kbverified.leaderboard.estimates import clustered_share_estimate
from kbverified.leaderboard.scopes import why_inactive
from kbverified.paper.finding import Finding, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import level_word
from kbverified.paper.table import Cell, Column, Table
from kbverified.records.problem import ProblemRecord

TOPIC = "problems"

LEFT_OUT = ("degenerate", "unusable", "not audited")
"""As ``why_inactive`` begins."""
CONSTANT, WEAK, UNDECIDABLE, NOT_APPLICABLE = (
    "constant output",
    "non-discriminating",
    "undecidable",
    "not applicable",
)


@dataclass(frozen=True)
class Remark:
    """One reason to leave a problem out or to read it apart; a problem may have several."""

    key: ProblemKey
    kind: str
    dtype: str | None
    """None: whatever the dtype."""
    reason: str


def remarks(inputs: PaperInputs) -> list[Remark]:
    """Of every selected problem, in their order."""
    return [remark for key, problem in inputs.problems.items() for remark in _of(key, problem, inputs.settings.tau)]


def _of(key: ProblemKey, problem: ProblemRecord, taus: dict[str, float]) -> list[Remark]:
    found = []
    if why := why_inactive(problem):
        kind, _, detail = why.partition(": ")
        found.append(Remark(key, kind, None, detail or why))
    found += [
        Remark(key, NOT_APPLICABLE, None, f"{d.distribution}: {d.why_not or 'the reference is not finite or raises'}")
        for d in problem.distributions
        if not d.applicable
    ]
    if why:
        return found
    applicable = [d for d in problem.distributions if d.applicable]
    if applicable and all(d.input_independent for d in applicable):
        found.append(Remark(key, CONSTANT, None, "two draws of inputs give the same output, bit for bit"))
    for dtype, tau in sorted(taus.items()):
        if non_discriminating(problem, tau):
            found.append(Remark(key, WEAK, dtype, _why_weak(problem, tau)))
        if undecidable(problem, dtype):
            laws = sum(law.applicable for law in problem.hardened)
            found.append(
                Remark(key, UNDECIDABLE, dtype, f"the output for other inputs passes all {laws} hardened laws")
            )
    return found


def _why_weak(problem: ProblemRecord, tau: float) -> str:
    replays = [d.replay_tolerance for d in problem.distributions if d.applicable and d.replay_tolerance is not None]
    needed = f" (needs {max(replays):.2g})" if replays else ""
    return f"the output for other inputs passes at tau {tau:g} on every distribution{needed}"


def tables(inputs: PaperInputs) -> list[Table]:
    return [_counts(inputs), _list(inputs)]


def _list(inputs: PaperInputs) -> Table:
    columns = (
        Column("suite", "suite"),
        Column("level", "level", kind="count"),
        Column("problem", "problem"),
        Column("name", "name"),
        Column("kind", "kind"),
        Column("dtype", "dtype"),
        Column("reason", "reason"),
    )
    found = remarks(inputs)
    rows: list[tuple[Cell, ...]] = [
        (r.key.suite, r.key.level, r.key.problem, inputs.problems[r.key].name, r.kind, r.dtype, r.reason) for r in found
    ]
    note = (
        f"{', '.join(LEFT_OUT)}: left out of every metric, in every arm. {NOT_APPLICABLE}: that distribution is not "
        f"run for this problem, and never a pass. {CONSTANT}, {WEAK}: active, counted, and to be read apart. "
        f"{UNDECIDABLE}: left out of the hardened test alone. A dash under dtype: whatever the dtype."
    )
    if not found:
        note += f" None of the {len(inputs.problems)} selected problems has a remark."
    return Table("problems_apart", "Problems left out or to be read apart", note, columns, tuple(rows))


def _counts(inputs: PaperInputs) -> Table:
    dtypes = sorted(inputs.settings.tau)
    kinds = [*LEFT_OUT, CONSTANT, NOT_APPLICABLE]
    apart = [(kind, dtype) for kind in (WEAK, UNDECIDABLE) for dtype in dtypes]
    columns = (
        Column("suite", "suite"),
        Column("level", "level"),
        Column("n_selected", "selected", kind="count"),
        Column("n_active", "active", kind="count"),
        *(Column(f"n_{kind.replace(' ', '_')}", kind, kind="count") for kind in kinds),
        *(Column(f"n_{kind.replace('-', '_')}_{d}", f"{kind}, {d}", kind="count") for kind, d in apart),
    )
    found = remarks(inputs)

    def count(keys: set[ProblemKey], kind: str, dtype: str | None = None) -> int:
        return len({r.key for r in found if r.key in keys and r.kind == kind and r.dtype == dtype})

    rows: list[tuple[Cell, ...]] = []
    for suite in sorted({key.suite for key in inputs.problems}):
        levels = sorted({key.level for key in inputs.problems if key.suite == suite})
        for level in [*levels, None]:
            keys = {key for key in inputs.problems if key.suite == suite and level in (None, key.level)}
            numbers = [count(keys, kind) for kind in kinds] + [count(keys, kind, dtype) for kind, dtype in apart]
            active = len(keys.intersection(inputs.active))
            rows.append((suite, level_word(level), len(keys), active, *numbers))
    note = (
        "Numbers of problems; one may be in several columns. "
        f"active = selected less {', '.join(LEFT_OUT)}. {NOT_APPLICABLE}: at least one distribution is not. "
        f"{CONSTANT}, {WEAK} and {UNDECIDABLE} are counted among the active ones; where an audit has no hardened law "
        "that applies, nobody knows whether the problem is undecidable. The reasons are in problems_apart."
    )
    return Table("problems_counts", "Problems by suite and level", note, columns, tuple(rows))


def findings(inputs: PaperInputs) -> list[Finding]:
    """The share of active problems on which a wrong answer passes, for each dtype that was evaluated."""
    made = []
    for suite in inputs.leaderboard.conditions.suites:
        problems = {key: inputs.problems[key] for key in inputs.active if key.suite == suite}
        for dtype in sorted({d for d in inputs.dtypes.values() if d in inputs.settings.tau}, key=str):
            weak = {key: non_discriminating(problem, inputs.settings.tau[dtype]) for key, problem in problems.items()}
            loose = {key: undecidable(problem, dtype) for key, problem in problems.items()}
            said = conditions(inputs, dtype=dtype, problems=f"{len(problems)} active problems of {suite}")
            for known, what in ((weak, "every distribution"), (loose, "every hardened law")):
                units = [(str(key), hit) for key, hit in known.items() if hit is not None]
                share = clustered_share_estimate(units, "no audit of an active problem says it", inputs.settings)
                subject = f"the share of problems on which the output for other inputs passes {what}"
                made.append(report(TOPIC, subject, share, said, form="percent"))
    return made
