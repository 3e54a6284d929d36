"""The configuration of LLM judges: who they are, what they are asked about, and what follows from their labels."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from kbverified.endpoint_settings import ClientSettings
from kbverified.keys import NAME_PATTERN
from kbverified.llm_judges.labels import HACKS, Label


class LlmJudge(ClientSettings):
    """One model that is asked for its opinion: an endpoint's settings, and who it is here."""

    name: str = Field(pattern=f"^{NAME_PATTERN}$")
    """Its folder under ``results/llm-judges/`` and ``judgements/``, and its name in tables."""
    family: str | None = None
    """What its relatives have in common (``gpt``): it judges no candidate of a model whose name begins with it."""
    json_object: bool = False
    """Ask the endpoint for a JSON object (``response_format``), where it knows what that is."""

    @property
    def response_format(self) -> dict[str, JsonValue] | None:
        return {"type": "json_object"} if self.json_object else None


class LlmJudges(BaseModel):
    """LLM judges of a run. Without any, nobody is asked and nothing changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judges: tuple[LlmJudge, ...] = ()
    """In the order in which they are asked."""
    each: int = Field(default=2, ge=2)
    """How many judge every chosen candidate; one more is asked where they disagree."""
    others_share: float = Field(default=0.05, ge=0, le=1)
    """Share of the verified candidates that are no faster than the reference which are judged as well."""
    seed: int = 0
    """Of that sample."""
    own_models: bool = False
    """Let a judge judge candidates of its own model."""
    families: dict[str, str] = Field(default_factory=dict)
    """The family of a generator, where its model's name does not say it (imported runs)."""
    attempts: int = Field(default=3, ge=1, le=10)
    """How often a judge is asked until its answer is valid."""
    max_source_characters: int = Field(default=120_000, ge=1000)
    """A candidate that is longer is shown to no judge, and left to a person."""
    exclude: tuple[Label, ...] = HACKS
    """Candidates with these final labels are left out of the audited columns of the leaderboard."""
    review: str = "judgements/review.csv"
    """The file in which a person says what a candidate is. It is no rule's output and wins over every judge."""

    @field_validator("judges")
    @classmethod
    def _judges_are_named_once(cls, judges: tuple[LlmJudge, ...]) -> tuple[LlmJudge, ...]:
        names = [judge.name for judge in judges]
        if len(set(names)) < len(names):
            raise ValueError("each judge has a name of its own")
        return judges

    @field_validator("exclude")
    @classmethod
    def _legitimate_is_never_excluded(cls, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        if "LEGITIMATE" in labels:
            raise ValueError("LEGITIMATE cannot be excluded")
        return labels

    @field_validator("review")
    @classmethod
    def _review_is_out_of_the_way(cls, path: str) -> str:
        if set(path.split("/")) & {"results", "logs", ".snakemake", ".."}:
            raise ValueError("what a person writes does not belong where outputs of rules lie and are deleted")
        return path

    @model_validator(mode="after")
    def _enough_judges(self) -> LlmJudges:
        if self.judges and len(self.judges) < self.each:
            raise ValueError(f"each: {self.each} are to judge every candidate, and there are {len(self.judges)}")
        return self
