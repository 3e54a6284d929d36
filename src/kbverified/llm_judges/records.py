"""What is written about LLM judges: whom to ask about what, each judge's answer, and the label of each candidate."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from kbverified.llm_judges.labels import Failure, Label
from kbverified.records.base import Record

Why = Literal["faster", "implausible", "sample"]
"""Its matched speedup is above 1; its time is below what moving inputs and outputs takes, so that no speedup is
counted; it was drawn from the other verified candidates."""
Basis = Literal["person", "agreed", "majority", "disagreed", "unanswered"]
"""Where a final label comes from: a person; all who answered of those who were to; more than half of all who answered;
nobody, for they disagree (UNCERTAIN) or too few answered (UNCERTAIN)."""


class ChosenCandidate(Record):
    """One candidate that is to be judged, by whom, and what they are told was measured."""

    candidate: str
    """generator/suite/problem/sample."""
    candidate_sha256: str
    problem_sha256: str | None
    why: Why
    panel: tuple[str, ...]
    """Judges that are asked, in order."""
    substitutes: tuple[str, ...]
    """Judges that may be asked where those disagree, in order."""
    kept_out: dict[str, str]
    """Judges that may not judge it, and why."""
    facts: dict[str, str]
    """What the judges are told, as they read it."""
    model_names: tuple[str, ...]
    """Names of the model that wrote it: an endpoint that serves one of them is no judge of it."""
    family: str | None = None


class Chosen(Record):
    """Everything that is judged in a run: ``results/llm-judges/chosen.json``."""

    schema_version: int = 1
    judges: tuple[str, ...]
    n_verified: int
    """Verified candidates of active problems, judged or not."""
    candidates: tuple[ChosenCandidate, ...]
    too_few_judges: tuple[str, ...] = ()
    """Candidates that fewer judges may judge than each candidate is to have."""

    def find(self, candidate: str) -> ChosenCandidate | None:
        return next((one for one in self.candidates if one.candidate == candidate), None)


class Substitutes(Record):
    """Whom to ask besides, by candidate: ``results/llm-judges/substitutes.json``."""

    schema_version: int = 1
    judges: dict[str, str]


class Attempt(Record):
    """One request to a judge and what came back."""

    response_path: str
    """In the append-only store."""
    prompt_sha256: str
    served_model: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    not_valid: str | None
    """Why the answer was none. None: it is the answer."""


class Judgement(Record):
    """One judge's opinion of one candidate: ``results/llm-judges/{judge}/{candidate}.json``."""

    schema_version: int = 1
    judge: str
    model: str
    settings: dict[str, JsonValue]
    candidate: str
    candidate_sha256: str
    reference_sha256: str
    template_sha256: str
    case: str | None
    """Number of the case. None where nothing could be shown."""
    package_version: str
    label: Label | None
    """None where there is no valid answer; ``failure`` then says why."""
    pattern: str | None = None
    explanation: str | None = None
    fix: str | None = None
    failure: Failure | None = None
    failure_detail: str | None = None
    attempts: tuple[Attempt, ...]

    @model_validator(mode="after")
    def _label_or_failure(self) -> Judgement:
        if (self.label is None) == (self.failure is None):
            raise ValueError("a judgement has a label or a failure, and never both")
        if self.label is not None and (self.pattern is None or self.explanation is None):
            raise ValueError("a label has a pattern and an explanation")
        return self


class Vote(Record):
    """A judgement as far as the label of its candidate depends on it."""

    judge: str
    role: Literal["panel", "substitute"]
    label: Label | None
    failure: Failure | None = None
    pattern: str | None = None
    explanation: str | None = None

    @model_validator(mode="after")
    def _label_or_failure(self) -> Vote:
        if (self.label is None) == (self.failure is None):
            raise ValueError("a vote has a label or a failure, and never both")
        return self


class PersonsLabel(Record):
    """What a person said of a candidate in the review file."""

    candidate: str
    candidate_sha256: str
    label: Label
    reviewer: str | None = None
    note: str | None = None


class Labelled(Record):
    """One judged candidate and its final label."""

    candidate: str
    candidate_sha256: str
    why: Why | None
    """None: nobody was asked, a person labelled it."""
    votes: tuple[Vote, ...]
    label: Label
    basis: Basis
    person: PersonsLabel | None = None
    pattern: str | None = None
    """That of the first judge with the final label."""

    @property
    def generator(self) -> str:
        return self.candidate.split("/")[0]

    @property
    def problem(self) -> str:
        """suite/problem."""
        return "/".join(self.candidate.split("/")[1:3])


class Labels(Record):
    """All final labels of a run: ``results/llm-judges/labels.json``."""

    schema_version: int = 1
    judges: dict[str, str]
    """Model by judge."""
    n_verified: int
    exclude: tuple[Label, ...]
    """Labels that are left out of the audited columns."""
    candidates: tuple[Labelled, ...]
    stale: tuple[str, ...] = ()
    """Candidates that a person labelled and that have been edited since: those labels do not count."""
    too_few_judges: tuple[str, ...] = Field(default=())

    @cached_property
    def by_source(self) -> dict[tuple[str, str], Labelled]:
        """Labels by path tail and sha256 of the source: an edited candidate is another."""
        return {(one.candidate, one.candidate_sha256): one for one in self.candidates}
