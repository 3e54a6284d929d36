"""``published`` beside ``measured``: every number of a published file, answered by this run or listed with a reason."""

from __future__ import annotations

from collections.abc import Sequence

from kbverified.paper.finding import Finding, Outcome, conditions, measured
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.published import Number, problem_sets
from kbverified.paper.published_measured import Answer, Unanswered, answers, measured_sets
from kbverified.paper.scopes import level_word
from kbverified.paper.table import Cell, Column, Table

TOPIC = "published"

NO_FILE = "The configuration names no file of published numbers (paper.published)."
SET_WORDS = {"degenerate": "degenerate problems", "filtered_configs": "distributions that do not apply"}


def tables(inputs: PaperInputs) -> list[Table]:
    answered, missing = answers(inputs)
    return [_beside(answered, inputs), _unanswered(answered, missing, inputs), _sets(inputs)]


def _source(inputs: PaperInputs) -> str:
    return NO_FILE if inputs.published is None else f"Published: {inputs.published.get('source', 'source not said')}."


def _beside(answered: Sequence[Answer], inputs: PaperInputs) -> Table:
    columns = (
        Column("section", "section"),
        Column("model", "model"),
        Column("generator", "generator"),
        Column("level", "level"),
        Column("dtype", "dtype"),
        Column("tau", "tau", kind="number"),
        Column("arm", "arm"),
        Column("test", "test"),
        Column("metric", "metric"),
        Column("published", "published", kind="number"),
        Column("measured", "measured", kind="number", interval=True),
        Column("n", "n", kind="count"),
        Column("inside", "published inside"),
    )
    rows = tuple(_row(one) for one in answered)
    c = inputs.leaderboard.conditions
    note = (
        f"{_source(inputs)} Measured: {'; '.join(c.environments) or 'no device'}; {100 * c.confidence:g} % bootstrap "
        "intervals over problems. Matched by the generator's published name, dtype, level, tau, arm, test and metric, "
        "and only where the run has as many problems. The published numbers have no interval; inside: one that rounds "
        "to the published number lies in the measured interval. n: problems of a share, terms of a mean. In bf16 the "
        "matched arm, for precision modes have no effect. A dash: all models and arms together; no interval."
    )
    if inputs.published is not None and not rows:
        note = f"This run speaks to none of the published numbers; the reasons are in published_unanswered. {note}"
    return Table("published", "Published beside measured", note, columns, rows)


def _row(one: Answer) -> tuple[Cell, ...]:
    q = one.question
    inside = None if one.inside is None else "yes" if one.inside else "no"
    return (
        one.number.section,
        q.model,
        one.generator,
        level_word(q.level),
        q.dtype,
        q.tau,
        q.arm,
        q.test,
        q.metric.words,
        one.number.value,
        one.measured,
        one.measured.n,
        inside,
    )


def _unanswered(answered: Sequence[Answer], missing: Sequence[Unanswered], inputs: PaperInputs) -> Table:
    columns = (
        Column("field", "field of the file"),
        Column("published", "published", kind="number"),
        Column("reason", "why this run cannot speak to it"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple((one.number.field, one.number.value, one.reason) for one in missing)
    note = f"{len(missing)} of {len(answered) + len(missing)} published numbers. {_source(inputs)}"
    return Table("published_unanswered", "Published numbers that this run cannot speak to", note, columns, rows)


def _sets(inputs: PaperInputs) -> Table:
    """Lists of problems: a census, in which nothing is sampled and nothing has an interval."""
    columns = (
        Column("what", "what"),
        Column("both", "published and measured"),
        Column("only_published", "only published"),
        Column("only_measured", "only measured"),
        Column("agree", "agree"),
    )
    rows: list[tuple[Cell, ...]] = []
    covered = inputs.published_suite in inputs.leaderboard.conditions.suites
    if inputs.published is not None and covered:
        here = measured_sets(inputs)
        names = {key.problem for key in inputs.problems if key.suite == inputs.published_suite}
        for what, there in problem_sets(inputs.published).items():
            asked = {item for item in there if item.split()[0] in names}
            parts = (asked & here[what], asked - here[what], here[what] - there)
            agree = "yes" if asked == here[what] == there else "as far as selected" if asked == here[what] else "no"
            rows.append((SET_WORDS[what], *(", ".join(sorted(part)) or "none" for part in parts), agree))
    note = f"{_source(inputs)} Of the selected problems of {inputs.published_suite}, from their audits."
    if not covered:
        note += f" The run has no suite {inputs.published_suite}."
    return Table("published_sets", "Published lists of problems", note, columns, tuple(rows))


def findings(inputs: PaperInputs) -> list[Finding]:
    """The headline numbers one by one, then of each section, dtype and tau how many lie in the measured intervals."""
    answered, missing = answers(inputs)
    if not answered:
        why = NO_FILE if inputs.published is None else "The reasons are in the table published_unanswered."
        sentence = f"No published number could be compared with a measured one. {why}"
        return [Finding(TOPIC, sentence, conditions(inputs), None, None, "not measured")]
    parts: dict[tuple[str, str, float], tuple[list[Answer], list[Unanswered]]] = {}
    for one in answered:
        parts.setdefault(_part(one.number), ([], []))[0].append(one)
    for other in missing:
        if other.number.question is not None:
            parts.setdefault(_part(other.number), ([], []))[1].append(other)
    made = [_headline(one, inputs) for one in answered if one.number.section == "headline"]
    return [*made, *(_of_section(*key, *part, inputs) for key, part in parts.items())]


def _part(number: Number) -> tuple[str, str, float]:
    assert number.question is not None
    return number.section, number.question.dtype, number.question.tau


def _of_section(
    section: str, dtype: str, tau: float, answered: Sequence[Answer], missing: Sequence[Unanswered], inputs: PaperInputs
) -> Finding:
    known = [one for one in answered if one.inside is not None]
    if known:
        inside = sum(one.inside is True for one in known)
        text = f"{inside} of the {len(known)} that have a measured interval lie inside it"
    else:
        text = "none has a measured interval"
    sentence = (
        f"Of the published numbers under {section} ({dtype}, tau {tau:g}) {text}; {len(missing)} were not compared."
    )
    outcome: Outcome = "holds" if known else "not measured"
    return Finding(TOPIC, sentence, conditions(inputs, dtype=dtype, tau=tau), None, None, outcome)


def _headline(one: Answer, inputs: PaperInputs) -> Finding:
    q = one.question
    subject = f"The published {one.number.value:g} ({q.model}, {q.metric.words}, all levels)"
    where, outcome = _PLACES[one.inside]
    sentence = f"{subject} {where}: {measured(one.measured, 'number')}."
    said = conditions(inputs, arm=q.arm, test=q.test, dtype=q.dtype, tau=q.tau)
    return Finding(TOPIC, sentence, said, one.measured, one.number.value, outcome)


_PLACES: dict[bool | None, tuple[str, Outcome]] = {
    True: ("lies in the measured interval", "holds"),
    False: ("lies outside the measured interval", "does not hold"),
    None: ("has no measured interval to lie in, and the comparison is undecided", "undecided"),
}
