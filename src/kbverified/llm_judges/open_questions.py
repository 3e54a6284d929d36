"""What LLM judges have not been asked yet, by what the store has: for an estimate, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kbverified import paid_answers, tokens
from kbverified.endpoint import Messages
from kbverified.endpoint_settings import ClientSettings
from kbverified.llm_judges import case
from kbverified.llm_judges.decide import substitute
from kbverified.llm_judges.judge import OtherSource, judge_candidate
from kbverified.llm_judges.records import Chosen, ChosenCandidate, Judgement
from kbverified.llm_judges.settings import LlmJudge, LlmJudges
from kbverified.paid_answers import ResponseFormat


@dataclass(frozen=True)
class Question:
    """One that is not answered."""

    prompt_tokens: int
    """As estimated."""
    tries: int
    """How often it may be asked until its answer is valid."""


@dataclass
class OpenQuestions:
    """One judge's."""

    judge: LlmJudge
    judged: int = 0
    """Candidates about which the judge has said all, or that are too long to be shown."""
    surely: list[Question] = field(default_factory=list)
    perhaps: list[Question] = field(default_factory=list)
    """Asked only where those do not agree who are asked first."""
    changed: int = 0
    """Candidates that are gone or were edited since they were measured: once they are measured, others are chosen."""
    there: list[tuple[str, int]] = field(default_factory=list)
    """Answers in the store: key, and what their prompt was estimated at."""


def open_questions(chosen: Chosen, settings: LlmJudges, root: Path) -> list[OpenQuestions]:
    """By judge, in their order. Nothing is sent and nothing is written. Raises OSError, RecordError for an answer that
    cannot be read, TemplateError."""
    template = root / case.TEMPLATE
    case.template_sha256(template)  # that it is there
    found = {judge.name: OpenQuestions(judge) for judge in settings.judges}

    def look(name: str, one: ChosenCandidate, surely: bool = True) -> Judgement | None:
        """A judge's opinion of a candidate, where the store has it; else the question is noted."""
        mine, asked = found[name], _InStore()
        try:
            made = judge_candidate(
                mine.judge,
                one,
                root,
                attempts=settings.attempts,
                most_characters=settings.max_source_characters,
                own_models=settings.own_models,
                template=template,
                obtain=asked,
            )
        except paid_answers.NotStored as missing:
            question = Question(tokens.message_tokens(missing.messages), settings.attempts - len(asked.there))
            (mine.surely if surely else mine.perhaps).append(question)
            return None
        finally:
            mine.there += asked.there
        mine.judged += 1
        return made

    for one in chosen.candidates:
        try:
            said = [made for name in one.panel if (made := look(name, one)) is not None]
            if len(said) == len(one.panel):
                if (other := substitute(one, said)) is not None:
                    look(other, one)
            elif one.substitutes:
                look(one.substitutes[0], one, surely=False)
        except (OtherSource, FileNotFoundError):
            for name in one.panel:
                found[name].changed += 1
    return list(found.values())


@dataclass
class _InStore:
    """Obtains what is stored, and notes it."""

    there: list[tuple[str, int]] = field(default_factory=list)

    def __call__(
        self,
        client: ClientSettings,
        messages: Messages,
        response_format: ResponseFormat = None,
        *,
        name: str,
        folder: Path,
    ) -> paid_answers.Obtained:
        obtained = paid_answers.stored(client, messages, response_format, name=name, folder=folder)
        self.there.append((obtained.path.stem, tokens.message_tokens(messages)))
        return obtained
