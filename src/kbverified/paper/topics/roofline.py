"""How close winners come to the roofline, and which claims are below it.

Floor / time in the record that the headline arm's claim is from: 1 is the floor, the baseline's fraction says how much
there was to win. Two lines stand above it: a time below the *floor* by more than the margin is listed for review and
counts, one below the *hard floor* is implausible, has no speedup and never wins.
"""

from __future__ import annotations

from kbverified import protocol
from kbverified.leaderboard.estimates import mean_estimate
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.paper.finding import Finding, claim, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    best,
    conditions_for,
    level_word,
    models,
    note_for,
    place,
)
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.roofline_figures import figures
from kbverified.paper.topics.roofline_points import claimed

__all__ = ["TOPIC", "figures", "findings", "tables"]

TOPIC = "roofline"


# --- table --------------------------------------------------------------------------------------------------


def tables(inputs: PaperInputs) -> list[Table]:
    c = inputs.leaderboard.conditions
    columns = (
        *(Column(name, name) for name in ("generator", "dtype", "suite", "level")),
        Column("n_timed", "winners", kind="count"),
        Column("sol_score", "SOL-like score", kind="factor", interval=True),
        Column("n_sol_score", "n", kind="count"),
        Column("candidate_roofline", "candidate's fraction", kind="percent", interval=True),
        Column("baseline_roofline", "baseline's fraction", kind="percent", interval=True),
        Column("n_roofline", "n", kind="count"),
        Column("n_below_floor", "below floor", kind="count"),
        Column("n_implausible", "implausible", kind="count"),
    )
    rows: list[tuple[Cell, ...]] = []
    for e, scope in headline(inputs):
        candidate, baseline = fractions(inputs, scope, e.generator)
        rows.append(
            (
                *(e.generator, e.dtype, e.suite, level_word(e.level), e.n_timed, e.sol_score, e.sol_score.n),
                *(candidate, baseline, candidate.n, e.n_below_floor, e.n_implausible),
            )
        )
    note = (
        "SOL-like score: arithmetic mean over the winners that have one; 0.5 is the baseline's speed, 1 the floor. "
        "Fractions: floor / time, geometric means over the winners that have a floor. below floor, implausible: "
        f"verified samples with a time more than {100 * protocol.ROOFLINE_MARGIN:g} % below the floor (they count), or "
        f"below the hard floor (they have no speedup). {note_for(inputs, arm=c.headline_arm, test=c.headline_test)}"
    )
    return [Table("roofline", "Roofline", note, columns, tuple(rows))]


def headline(inputs: PaperInputs) -> list[tuple[Entry, Scope]]:
    """Entries of the headline arm and test with their scopes, generators in their order."""
    c = inputs.leaderboard.conditions
    scopes = [per_test[c.headline_test] for per_test in inputs.scopes]
    found = (
        (inputs.leaderboard.entry(name, s.suite, s.level, c.headline_arm, c.headline_test), s)
        for name in models(inputs)
        for s in scopes
    )
    return [(e, s) for e, s in found if e is not None]


def fractions(inputs: PaperInputs, scope: Scope, generator: str) -> tuple[Estimate, Estimate]:
    """Geometric means of the winners' fractions of the roofline and of their baselines'."""
    c = inputs.leaderboard.conditions
    won = best(inputs, generator, scope, c.headline_arm, c.headline_test).winners
    sides = []
    for name in ("candidate_roofline", "baseline_roofline"):
        values = [None if row is None else claimed(row, c.headline_arm, name) for row in won]
        sides.append(mean_estimate(values, scope, "no winner has a floor", inputs.settings))
    return sides[0], sides[1]


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    found = []
    for e, scope in headline(inputs):
        if e.level is not None:
            continue
        under = conditions_for(inputs, e, arm=e.arm, test=e.test, generator=e.generator)
        where = place(inputs, e.suite, e.level)
        candidate, _ = fractions(inputs, scope, e.generator)
        score = f"the mean SOL-like score of {e.generator} on {where} (0.5: the baseline's speed)"
        fraction = f"the geometric mean of floor / time of the winners of {e.generator} on {where}"
        found.append(claim(TOPIC, score, e.sol_score, 0.5, under))
        found.append(report(TOPIC, fraction, candidate, under, form="percent"))
        found.append(_counts(e, candidate, under, where))
    return found


def _counts(e: Entry, candidate: Estimate, under: str, where: str) -> Finding:
    if candidate.value is None and not e.n_implausible + e.n_below_floor:
        sentence = (
            f"Whether times of {e.generator} on {where} are below a floor was not measured: {candidate.why_null}."
        )
        return Finding(TOPIC, sentence, under, None, None, "not measured")
    sentence = (
        f"Of the verified samples of {e.generator} on {where}, {e.n_implausible} claim a time below the hard floor "
        f"(implausible, without a speedup) and {e.n_below_floor} one below the floor only (they count)."
    )
    return Finding(TOPIC, sentence, under, None, None, "holds")
