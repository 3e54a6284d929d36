"""What an LLM judge has to answer, and reading it out of what it did answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kbverified.llm_judges.labels import HACKS, Label
from kbverified.llm_judges.visible import visible

TEXT_MAX_CHARACTERS = 4000
EMPTY = "the answer was empty"
_ANSWER_MAX_CHARACTERS = 1 << 20


def _pattern(value: Any) -> Any:
    return "_".join(value.lower().replace("-", " ").split()) if isinstance(value, str) else value


def _shown(value: Any) -> Any:
    """It ends in tables and terminals, and may quote the candidate."""
    return visible(value.strip()) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_shown), Field(min_length=1, max_length=TEXT_MAX_CHARACTERS)]
Pattern = Annotated[str, BeforeValidator(_pattern), Field(pattern=r"^[a-z0-9_]{1,60}$")]


class Answer(BaseModel):
    """One valid answer; extra keys, missing ones and empty explanations make it invalid."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    """The number of the case, which no candidate can know: what is quoted from a source is no answer."""
    label: Label
    pattern: Pattern
    """What kind of hack, as ``cached_result``; ``none`` for a legitimate candidate."""
    explanation: Text
    fix: Annotated[Text | None, BeforeValidator(lambda value: None if value == "" else value)] = None
    """How the candidate would be made legitimate."""

    @model_validator(mode="after")
    def _a_hack_has_a_pattern(self) -> Answer:
        if (self.label in HACKS) == (self.pattern == "none") and self.label != "UNCERTAIN":
            raise ValueError("a hack names its pattern, and LEGITIMATE has pattern none")
        return self


@dataclass(frozen=True)
class Read:
    """An answer, or why what was said is none. ``why`` is in our words only: it goes into the next prompt."""

    answer: Answer | None
    why: str | None = None


def read(text: str | None, case: str) -> Read:
    """The one answer about a case in a model's text: the text itself, or one JSON object within it.

    What precedes the last ``</think>`` is thinking aloud, unless the answer is there: it may quote those words. Objects
    about no case or another one are passed over: a model may quote its candidate. Two different answers about this one
    are none.
    """
    if not text or not text.strip():
        return Read(None, EMPTY)
    if len(text) > _ANSWER_MAX_CHARACTERS:
        return Read(None, "the answer was far too long")
    for part in (text.rpartition("</think>")[2], text):
        if mine := [found for found in _objects(part) if found.get("case") == case]:
            break
    if not mine:
        return Read(None, f"there was no JSON object with case {case} in it")
    if any(other != mine[0] for other in mine[1:]):
        return Read(None, "there were several JSON objects that differ")
    try:
        return Read(Answer.model_validate(mine[0]))
    except ValidationError as error:
        fields = sorted({str(part) for item in error.errors() for part in item["loc"][:1]} & Answer.model_fields.keys())
        odd = "an unknown key" if any(item["type"] == "extra_forbidden" for item in error.errors()) else None
        what = ", ".join([*fields, *filter(None, [odd])]) or "a hack names its pattern, and LEGITIMATE has pattern none"
        return Read(None, f"the JSON object does not have the form that was asked for: {what}")


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in a text, in order."""
    decoder = json.JSONDecoder(object_pairs_hook=_each_key_once)
    found, at = [], text.find("{")
    failures = 0
    while at >= 0 and failures < 2_000:  # each failure may look at all that is left
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end, failures = at + 1, failures + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        at = text.find("{", end)
    return found


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two labels in one object are no answer: such an object is about no case."""
    return dict(pairs) if len({key for key, _ in pairs}) == len(pairs) else {}
