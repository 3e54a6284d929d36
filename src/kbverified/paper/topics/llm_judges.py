"""What LLM judges, and a person, say of the fastest verified candidates, and what is left without the hacks.

Labels are opinions (docs/llm-judges.md): every share of them is a share of what was *called* a hack. Candidates that
are faster than the reference are all judged, and stand apart from the sample of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from kbverified.leaderboard.estimates import clustered_share_estimate
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.leaderboard.scopes import Scope, best_samples
from kbverified.leaderboard.subsets import counting, label_of
from kbverified.llm_judges.labels import FAILURES, HACKS, LABELS
from kbverified.llm_judges.records import Labelled
from kbverified.paper.agreement import Agreement, agreements
from kbverified.paper.contrasts import mean_ratio
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    conditions_for,
    generators_in,
    headline_entries,
    level_word,
    models,
    note_for,
    place,
    speedups,
)
from kbverified.paper.table import Cell, Column, Table

TOPIC = "llm_judges"
NOBODY = "no LLM judge is configured (llm_judges in the configuration)"
EVERY = "all generators"


@dataclass(frozen=True)
class Judged:
    """The judged candidates of one generator, or of all: those that are faster, and the sample of the others."""

    generator: str
    faster: tuple[Labelled, ...]
    sample: tuple[Labelled, ...]


@lru_cache(maxsize=1)
def judged(inputs: PaperInputs) -> list[Judged]:
    """Every model's judged candidates, in order, and those of all where there are several."""
    if inputs.labels is None:
        return []
    found = []
    for name in models(inputs):
        labels = [label for row in inputs.rows[name] if (label := label_of(row, inputs.labels)) and label.why]
        faster = tuple(label for label in labels if label.why != "sample")
        found.append(Judged(name, faster, tuple(label for label in labels if label.why == "sample")))
    if len(found) > 1:
        faster, sample = (tuple(chain.from_iterable(part)) for part in zip(*((x.faster, x.sample) for x in found)))
        found.append(Judged(EVERY, faster, sample))
    return found


def all_judged(inputs: PaperInputs) -> list[Labelled]:
    """The judged candidates of all models, each once."""
    return [x for one in judged(inputs) if one.generator != EVERY for x in (*one.faster, *one.sample)]


def hack_share(labelled: Iterable[Labelled], inputs: PaperInputs) -> Estimate:
    """Share of some judged candidates whose final label is a hack; its interval is over problems."""
    units = [(one.problem, one.label in HACKS) for one in labelled]
    return clustered_share_estimate(units, "no candidate of these was judged", inputs.settings)


@lru_cache(maxsize=1)
def agreement(inputs: PaperInputs) -> list[Agreement]:
    """Every two judges of a panel."""
    return agreements(all_judged(inputs), inputs.labels.judges, inputs.settings) if inputs.labels else []


# --- tables -------------------------------------------------------------------------------------------------


def tables(inputs: PaperInputs) -> list[Table]:
    note = note_for(inputs)
    if inputs.labels is None:
        note = f"Nothing to show: {NOBODY}. {note}"
    made = (_labels, _judges, _agreement, _patterns)
    return [*(one(inputs, note) for one in made), _audited(inputs)]


def _labels(inputs: PaperInputs, note: str) -> Table:
    columns = (
        Column("generator", "generator"),
        Column("n_faster", "faster, judged", kind="count"),
        *(Column(f"n_{label.lower()}", label, kind="count") for label in LABELS),
        Column("hacks", "called a hack", kind="percent", interval=True),
        Column("n_person", "by a person", kind="count"),
        Column("n_sample", "others, judged", kind="count"),
        Column("sample_hacks", "of these called a hack", kind="percent", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in judged(inputs):
        counts = Counter(label.label for label in one.faster)
        rows.append(
            (
                one.generator,
                len(one.faster),
                *(counts[label] for label in LABELS),
                hack_share(one.faster, inputs),
                sum(label.basis == "person" for label in (*one.faster, *one.sample)),
                len(one.sample),
                hack_share(one.sample, inputs),
            )
        )
    text = (
        "faster: verified candidates of active problems with a matched speedup above 1, or with a time that cannot be: "
        "all of them are judged; others: a seeded sample of the other verified ones. Final labels: a person's, else "
        f"that of judges who agree or of a majority, else UNCERTAIN. {note}"
    )
    return Table("llm_judges", "What LLM judges say of verified candidates", text, columns, tuple(rows))


def _judges(inputs: PaperInputs, note: str) -> Table:
    columns = (
        Column("judge", "judge"),
        Column("model", "model"),
        Column("n_asked", "asked", kind="count"),
        Column("n_substitute", "of these on disagreement", kind="count"),
        *(Column(f"n_{label.lower()}", label, kind="count") for label in LABELS),
        *(Column(f"n_{failure}", failure.replace("_", " "), kind="count") for failure in FAILURES),
    )
    votes = [vote for one in all_judged(inputs) for vote in one.votes]
    rows: list[tuple[Cell, ...]] = []
    for judge, model in (inputs.labels.judges if inputs.labels else {}).items():
        mine = [vote for vote in votes if vote.judge == judge]
        counts: Counter[str | None] = Counter(vote.label or vote.failure for vote in mine)
        asked = (len(mine), sum(vote.role == "substitute" for vote in mine))
        rows.append((judge, model, *asked, *(counts[what] for what in (*LABELS, *FAILURES))))
    text = f"A failure is no label: UNCERTAIN is one that a judge chose. {note}"
    return Table("llm_judges_judges", "LLM judges, one by one", text, columns, tuple(rows))


def _agreement(inputs: PaperInputs, note: str) -> Table:
    columns = (
        Column("first", "judge"),
        Column("second", "and"),
        Column("n", "candidates", kind="count"),
        Column("n_without", "without a label by one", kind="count"),
        Column("agreed", "same label", kind="percent", interval=True),
        Column("kappa", "Cohen's kappa", kind="factor", interval=True),
        Column("kappa_hack", "kappa, hack or not", kind="factor", interval=True),
    )
    rows = tuple((x.first, x.second, x.n, x.n_without, x.agreed, x.kappa, x.kappa_hack) for x in agreement(inputs))
    text = (
        "Candidates that both judges were asked about first and labelled; who was asked only where others disagreed is "
        "in no pair. kappa: (p_o - p_e) / (1 - p_e) over the five labels (Cohen 1960); hack or not: over hack, "
        f"LEGITIMATE, UNCERTAIN. {note}"
    )
    return Table("llm_judges_agreement", "How far LLM judges agree", text, columns, rows)


def _patterns(inputs: PaperInputs, note: str) -> Table:
    columns = (
        Column("pattern", "pattern"),
        Column("label", "label"),
        Column("n_candidates", "candidates", kind="count"),
        Column("n_problems", "problems", kind="count"),
        Column("n_generators", "generators", kind="count"),
    )
    found: dict[tuple[str, str], list[Labelled]] = {}
    for one in all_judged(inputs):
        if one.label in HACKS:
            found.setdefault((one.pattern or "not named", one.label), []).append(one)
    rows = sorted(
        (
            (pattern, label, len(some), len({x.problem for x in some}), len({x.generator for x in some}))
            for (pattern, label), some in found.items()
        ),
        key=lambda row: (-row[2], row),
    )
    text = f"Candidates whose final label is a hack, by the pattern that the first judge with that label named. {note}"
    return Table("llm_judges_patterns", "Patterns of what is called a hack", text, columns, tuple(rows))


@dataclass(frozen=True)
class Left:
    """An entry of the headline beside what is left of it without the hacks."""

    entry: Entry
    ratio: Estimate
    """Correct Speedup audited / measured, on the same draws of problems."""


@lru_cache(maxsize=1)
def left(inputs: PaperInputs) -> list[Left]:
    """The headline's entries of models, where somebody audited."""
    return [Left(entry, _ratio(entry, inputs)) for entry in headline_entries(inputs) if entry.audited is not None]


def _ratio(entry: Entry, inputs: PaperInputs) -> Estimate:
    labels, scope = inputs.labels, _scope(entry, inputs)
    assert labels is not None
    wanted = set(scope.problems)
    here = [r for r in inputs.rows[entry.generator] if r["suite"] == scope.suite and r["problem"] in wanted]
    audited = best_samples(counting(here, labels), scope.problems, entry.arm, entry.test).column(f"speedup_{entry.arm}")
    return mean_ratio(audited, speedups(inputs, entry.generator, scope, entry.arm, entry.test), scope, inputs.settings)


def _scope(entry: Entry, inputs: PaperInputs) -> Scope:
    of_test = (per_test[entry.test] for per_test in inputs.scopes)
    return next(scope for scope in of_test if (scope.suite, scope.level) == (entry.suite, entry.level))


def _audited(inputs: PaperInputs) -> Table:
    c = inputs.leaderboard.conditions
    columns = (
        Column("generator", "generator"),
        Column("suite", "suite"),
        Column("level", "level"),
        Column("n_judged", "verified, judged", kind="count"),
        Column("n_excluded", "left out", kind="count"),
        Column("correctness", "correct", kind="percent", interval=True),
        Column("correctness_audited", "correct, audited", kind="percent", interval=True),
        Column("correct_speedup", "Correct Speedup", kind="factor", interval=True),
        Column("correct_speedup_audited", "Correct Speedup, audited", kind="factor", interval=True),
        Column("ratio", "audited / measured", kind="factor", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in left(inputs):
        entry, audited = one.entry, one.entry.audited
        assert audited is not None
        key = (entry.generator, entry.suite, level_word(entry.level), audited.n_judged, audited.n_excluded)
        shares = (entry.correctness, audited.correctness)
        rows.append((*key, *shares, entry.correct_speedup, audited.correct_speedup, one.ratio))
    out = " or ".join(inputs.labels.exclude) if inputs.labels else "-"
    note = note_for(inputs, arm=c.headline_arm, test=c.headline_test)
    text = (
        f"Audited: without verified samples whose final label is {out}; another sample of the problem may win. {note}"
    )
    if inputs.labels is None:
        text = f"Nothing to show: {NOBODY}. {note}"
    return Table("llm_judges_audited", "The headline without what is called a hack", text, columns, tuple(rows))


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    """How often hacks are called, whether judges agree, and what is left of each model's headline."""
    if inputs.labels is None:
        nothing = Estimate(value=None, n=0, why_null=NOBODY)
        subject = "the share of faster verified candidates that LLM judges call a hack"
        return [report(TOPIC, subject, nothing, conditions(inputs))]
    who = ", ".join(f"{name} ({model})" for name, model in inputs.labels.judges.items())
    under = conditions(inputs, arm="matched", test="hidden", problems=f"judged by {who}")
    made = []
    for one in judged(inputs):
        subject = f"the share of verified candidates of {one.generator} above 1x that are called a hack"
        made.append(report(TOPIC, subject, hack_share(one.faster, inputs), under, form="percent"))
    for pair in agreement(inputs):
        subject = f"Cohen's kappa of {pair.first} and {pair.second}"
        made.append(claim(TOPIC, subject, pair.kappa, 0.0, under))
    whole = [one for one in left(inputs) if one.entry.level is None]
    return made + [finding for one in whole for finding in _of_headline(one, inputs)]


def _of_headline(one: Left, inputs: PaperInputs) -> list[Finding]:
    entry, audited = one.entry, one.entry.audited
    assert audited is not None and entry.generator in generators_in(inputs, entry.suite)
    said = conditions_for(inputs, entry, arm=entry.arm, test=entry.test, generator=entry.generator)
    under = f"{said}, {audited.n_excluded} of {audited.n_judged} judged samples left out"
    where = place(inputs, entry.suite, entry.level)
    speedup = f"the Correct Speedup of {entry.generator} without what is called a hack ({where})"
    ratio = f"the Correct Speedup of {entry.generator} without what is called a hack, over that with it ({where}),"
    return [
        claim(TOPIC, speedup, audited.correct_speedup, 1.0, under),
        claim(TOPIC, ratio, one.ratio, 1.0, under, direction="below"),
    ]
