"""From what judges answered, and what a person said, to one label of each candidate.

A person's label wins. Else, of those who gave one: the label on which all agree, if there are two at least; the label
of more than half, once a substitute was asked; UNCERTAIN otherwise. A failure is no vote, and UNCERTAIN is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kbverified.llm_judges.labels import Label
from kbverified.llm_judges.records import (
    Basis,
    Chosen,
    ChosenCandidate,
    Judgement,
    Labelled,
    Labels,
    PersonsLabel,
    Vote,
)
from kbverified.llm_judges.settings import LlmJudges

VOTES_MIN = 2
"""No label stands on one model's word."""


def substitute(chosen: ChosenCandidate, panel: Sequence[Judgement]) -> str | None:
    """The judge that is asked besides, where those of the panel do not agree; None where they do, or there is none.

    Raises ValueError where a judgement is of another candidate or judge.
    """
    for found in panel:
        if found.candidate != chosen.candidate or found.judge not in chosen.panel:
            raise ValueError(f"{found.judge}/{found.candidate} is no judgement of {chosen.candidate} by its panel")
    said = [found.label for found in panel]
    agreed = len(said) >= VOTES_MIN and None not in said and len(set(said)) == 1
    return None if agreed or not chosen.substitutes else chosen.substitutes[0]


def vote_of(found: Judgement, chosen: ChosenCandidate) -> Vote:
    role = "panel" if found.judge in chosen.panel else "substitute"
    return Vote(
        judge=found.judge,
        role=role,  # type: ignore[arg-type]
        label=found.label,
        failure=found.failure,
        pattern=found.pattern,
        explanation=found.explanation,
    )


def label_of(votes: Sequence[Vote]) -> tuple[Label, Basis]:
    """The label that votes come to without a person, and on what it stands."""
    said = [vote.label for vote in votes if vote.label is not None]
    if len(said) < VOTES_MIN:
        return "UNCERTAIN", "unanswered"
    label, n = Counter(said).most_common(1)[0]
    if n == len(said):
        return label, "agreed"
    return (label, "majority") if 2 * n > len(said) else ("UNCERTAIN", "disagreed")


def labels(
    chosen: Chosen,
    judgements: Mapping[str, Sequence[Judgement]],
    persons: Iterable[PersonsLabel],
    settings: LlmJudges,
    sources: Mapping[str, str],
) -> Labels:
    """Every judged candidate's final label. ``judgements`` by candidate; ``sources``: sha256 of the source of every
    candidate of the run, by path tail.

    A person may label a candidate that nobody judged; a label of a source that has changed since is stale. Raises
    ValueError for a judgement of another source.
    """
    persons = list(persons)
    fresh = {one.candidate: one for one in persons if sources.get(one.candidate) == one.candidate_sha256}
    stale = {one.candidate for one in persons if one.candidate in sources} - fresh.keys()
    found = [_labelled(one, judgements.get(one.candidate, ()), fresh.get(one.candidate)) for one in chosen.candidates]
    judged = {one.candidate for one in chosen.candidates}
    for tail in sorted(fresh.keys() - judged):
        said = fresh[tail]
        found.append(
            Labelled(
                candidate=tail,
                candidate_sha256=said.candidate_sha256,
                why=None,
                votes=(),
                label=said.label,
                basis="person",
                person=said,
            )
        )
    return Labels(
        judges={judge.name: judge.model for judge in settings.judges},
        n_verified=chosen.n_verified,
        exclude=settings.exclude,
        candidates=tuple(found),
        stale=tuple(sorted(stale)),
        too_few_judges=chosen.too_few_judges,
    )


def _labelled(chosen: ChosenCandidate, found: Sequence[Judgement], person: PersonsLabel | None) -> Labelled:
    for one in found:
        if one.candidate_sha256 != chosen.candidate_sha256:
            raise ValueError(
                f"results/llm-judges/{one.judge}/{one.candidate}.json: field candidate_sha256: of another source than "
                "the one that was measured. Run snakemake llm_judges again."
            )
    order = [*chosen.panel, *chosen.substitutes]
    votes = [vote_of(one, chosen) for one in sorted(found, key=lambda one: order.index(one.judge))]
    label, basis = label_of(votes)
    if person is not None:
        label, basis = person.label, "person"
    return Labelled(
        candidate=chosen.candidate,
        candidate_sha256=chosen.candidate_sha256,
        why=chosen.why,
        votes=tuple(votes),
        label=label,
        basis=basis,
        person=person,
        pattern=next((vote.pattern for vote in votes if vote.label == label), None),
    )
