"""Failure modes: which distribution catches what, and which verdicts each test gave."""

from __future__ import annotations

from functools import lru_cache

from matplotlib.figure import Figure

from kbverified import protocol
from kbverified.leaderboard.estimates import clustered_share_estimate
from kbverified.paper.finding import Finding, claim, conditions
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import by_dtype, generators_in, level_word, models, note_for, suites_of
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.failures_counts import (
    Failures,
    Hardened,
    Sample,
    caught_alone,
    failures_of,
    hardened_laws,
    hardened_of,
    samples_of,
)
from kbverified.paper.topics.failures_figures import by_distribution
from kbverified.verdicts import TESTS, Test

TOPIC = "failures"

_COLUMNS = (
    Column("generator", "generator"),
    Column("dtype", "dtype"),
    Column("suite", "suite"),
    Column("level", "level"),
    Column("distribution", "distribution"),
    Column("n_problems", "problems", kind="count"),
    Column("problems_failed", "problems failed", kind="percent", interval=True),
    Column("n_samples", "samples", kind="count"),
    Column("samples_failed", "samples failed", kind="percent", interval=True),
    Column("n_wrong_value", "wrong value", kind="count"),
    Column("n_other_failure", "other failure", kind="count"),
    Column("n_not_reached", "not reached", kind="count"),
)
_ALONE = (
    *_COLUMNS[:5],
    Column("n_problems", "problems", kind="count"),
    Column("n_alone_problems", "problems caught", kind="count"),
    Column("alone_problems", "problems caught", kind="percent", interval=True),
    Column("n_alone_samples", "samples caught", kind="count"),
)


@lru_cache(maxsize=1)
def judged(inputs: PaperInputs) -> dict[str, list[Sample]]:
    """Every model's judged samples."""
    return {name: samples_of(inputs.rows[name]) for name in models(inputs)}


@lru_cache(maxsize=1)
def counts(inputs: PaperInputs) -> list[Failures]:
    """Every generator with a candidate there, on each suite's levels and as a whole, on every distribution."""
    found = []
    samples = judged(inputs)
    for per_test in inputs.scopes:
        scope = per_test["hidden"]
        for name in generators_in(inputs, scope.suite):
            found += failures_of(samples[name], name, inputs.dtypes[name], scope, inputs.settings)
    order = {name: i for i, name in enumerate(inputs.generators)}
    return sorted(found, key=lambda f: (f.suite, order[f.generator], f.level is None, f.level or 0))


def tables(inputs: PaperInputs) -> list[Table]:
    found = counts(inputs)
    return [
        _by_distribution(found, inputs),
        _alone(found, inputs),
        _hardened(inputs),
        *(_verdicts(inputs, test) for test in TESTS),
    ]


def _key(one: Failures) -> tuple[Cell, ...]:
    return (one.generator, one.dtype, one.suite, level_word(one.level), one.distribution)


def _nothing(found: list[Failures]) -> str:
    return "" if found else "No generator has a candidate. "


def _by_distribution(found: list[Failures], inputs: PaperInputs) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            *_key(one),
            one.problems.n,
            one.problems,
            one.samples.n,
            one.samples,
            one.n_wrong_value,
            one.n_other_failure,
            one.n_not_reached,
        )
        for one in found
    ]
    note = (
        f"{_nothing(found)}problems: those of which a sample reached the distribution; failed where no sample passes "
        "there. samples: those that reached it; failed where the output needs a larger tau (wrong value) or the "
        "launch failed (other failure). not reached: judged samples that ended before (a build error, a crash), which "
        "are no failure of this distribution's. Active problems to which the distribution applies; samples without a "
        f"verdict are left out; a dash under dtype: nothing was evaluated. {note_for(inputs)}"
    )
    return Table("failures_by_distribution", "Failures by distribution", note, _COLUMNS, tuple(rows))


def _alone(found: list[Failures], inputs: PaperInputs) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (*_key(one), one.alone_problems.n, one.n_alone_problems, one.alone_problems, one.n_alone_samples)
        for one in found
    ]
    note = (
        f"{_nothing(found)}A sample is caught by a distribution alone where it fails there and passes every other one "
        "that applies; a problem where no sample passes the hidden test, and one would without this distribution. "
        "problems: active ones to which it applies, with a judged sample; a dash under dtype: nothing was evaluated. "
        f"{note_for(inputs)}"
    )
    return Table("failures_alone", "What one distribution alone catches", note, _ALONE, tuple(rows))


def hardened(inputs: PaperInputs) -> list[Hardened]:
    """Every model on every hardened law, of each suite as a whole."""
    laws = hardened_laws((row for name in models(inputs) for row in inputs.rows[name]), inputs.problems.values())
    return [
        one
        for per_test in suites_of(inputs)
        for name in generators_in(inputs, per_test["hardened"].suite)
        for one in hardened_of(inputs.rows[name], name, per_test["hardened"], laws, inputs.settings)
    ]


def _hardened(inputs: PaperInputs) -> Table:
    columns = (
        *_COLUMNS[:3],
        Column("law", "law"),
        Column("n_samples", "samples", kind="count"),
        Column("samples_failed", "samples failed", kind="percent", interval=True),
        Column("n_failed", "failed", kind="count"),
        Column("n_alone", "by this law alone", kind="count"),
    )
    rows = tuple(
        (x.generator, x.dtype, x.suite, x.law, x.samples.n, x.samples, x.n_failed, x.n_alone) for x in hardened(inputs)
    )
    note = (
        "samples: those that pass the hidden test and have a hardened verdict, on active problems that this test "
        "can decide. A law that a problem leaves out fails nobody. A published distribution stands here where an "
        "answer that passes it by its tolerance is too far from the oracle. alone: the sample fails no other one. A "
        f"dash under dtype: nothing was evaluated. {note_for(inputs)}"
    )
    if not rows:
        note = f"No audit has a hardened law, or no generator has a candidate. {note}"
    return Table("failures_hardened", "What the hardened laws catch beyond the hidden test", note, columns, rows)


def _verdicts(inputs: PaperInputs, test: Test) -> Table:
    """The leaderboard's own counts: a row per verdict, passes first, what was not judged last."""
    summaries = inputs.leaderboard.generators
    totals: dict[str, int] = {}
    for summary in summaries:
        for verdict, n in summary.verdicts[test].items():
            totals[verdict] = totals.get(verdict, 0) + n
    names = sorted(totals, key=lambda v: (v != "pass", v == "not judged", -totals[v], v))
    columns = (
        Column("verdict", "verdict"),
        *(Column(f"n_{summary.generator}", summary.generator, kind="count") for summary in summaries),
    )
    rows: list[tuple[Cell, ...]] = [(v, *(s.verdicts[test].get(v, 0) for s in summaries)) for v in names]
    rows.append(("all candidates", *(s.n_candidates for s in summaries)))
    note = (
        f"Samples by their verdict in the {test} test, those for problems that are left out of every metric too. not "
        f"judged: no verdict was given, which is no failure: a record is missing, or the test cannot decide. "
        f"{note_for(inputs)}"
    )
    return Table(f"verdicts_{test}", f"Verdicts of the {test} test", note, columns, tuple(rows))


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    return {"failures_by_distribution": by_distribution(counts(inputs), inputs)}


def findings(inputs: PaperInputs) -> list[Finding]:
    """Of each distribution beyond the original one: whether it alone keeps some model from solving a problem."""
    made = []
    for per_test in suites_of(inputs):
        scope = per_test["hidden"]
        for dtype, names in by_dtype(inputs).items():
            here = [name for name in names if name in generators_in(inputs, scope.suite)]
            for distribution in protocol.DISTRIBUTIONS if here else ():
                if distribution == protocol.STANDARD_DISTRIBUTION:
                    continue
                units = caught_alone([judged(inputs)[name] for name in here], distribution, scope)
                share = clustered_share_estimate(units, "no judged sample", inputs.settings)
                who = here[0] if len(here) == 1 else f"some of the {len(here)} {dtype} generators"
                subject = f"the share of problems that {who} would solve if {distribution} were left out, and does not"
                where = f"{len(units)} active problems of {scope.suite} with a judged sample"
                said = conditions(inputs, test="hidden", dtype=dtype, problems=where)
                made.append(claim(TOPIC, subject, share, 0.0, said, form="percent"))
    return made
