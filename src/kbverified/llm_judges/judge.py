"""Asking one LLM judge about one candidate, and the ``llm-judge`` command that the workflow calls.

An answer that is none is asked for again, so often as the configuration says; then the judgement records a failure,
which is no label. Every answer lies in an append-only store that no rule owns, ``judgements/{judge}/responses/``, under
the hash of what was asked: the same question is never paid for twice (paid_answers). Limits and budgets are those of
the judge's settings, over all runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import kbverified
from kbverified.keys import CandidateKey
from kbverified.llm_judges import answer, case
from kbverified.llm_judges.answer import Answer
from kbverified.llm_judges.choose import own
from kbverified.llm_judges.labels import Failure
from kbverified.llm_judges.records import Attempt, Chosen, ChosenCandidate, Judgement
from kbverified.llm_judges.settings import LlmJudge
from kbverified.printable import printable
from kbverified.records.files import read, write
from kbverified.response_store import StoredResponse

if TYPE_CHECKING:
    from kbverified.paid_answers import Obtain

FOLDER = Path("judgements")
"""What is paid for and what a person writes: outside ``results/``, where all may be deleted."""
_REFUSED = "the model refused to answer"


class OtherSource(ValueError):
    """A file is not the one that was measured."""


@dataclass
class _Asked:
    """What became of asking: a valid answer, or why there is none."""

    attempts: list[Attempt] = field(default_factory=list)
    answer: Answer | None = None
    failure: Failure | None = None
    detail: str | None = None


def store(root: Path, judge: str) -> Path:
    """The folder of a judge's answers."""
    return root / FOLDER / judge / "responses"


def judge_candidate(
    judge: LlmJudge,
    chosen: ChosenCandidate,
    root: Path,
    *,
    attempts: int,
    most_characters: int,
    own_models: bool = False,
    template: Path = case.TEMPLATE,
    obtain: Obtain | None = None,
) -> Judgement:
    """One judge's opinion of one candidate, from the store where that has it, else from the endpoint; ``obtain``: in
    place of paid_answers.obtain.

    Raises OtherSource, ValueError for a template that cannot be used, endpoint.RequestRejected (bad input);
    EndpointFault, OSError (try again).
    """
    key = CandidateKey.from_tail(chosen.candidate)
    candidate = key.source_path(root).read_bytes()
    reference = key.problem_key.source_path(root).read_bytes()
    for data, wanted, path in (
        (candidate, chosen.candidate_sha256, key.source_path(root)),
        (reference, chosen.problem_sha256, key.problem_key.source_path(root)),
    ):
        if wanted is not None and hashlib.sha256(data).hexdigest() != wanted:
            raise OtherSource(f"{path}: not the file that was measured: run the whole workflow again")
    asked, shown = _Asked(), None
    try:
        shown = case.make_case(reference, candidate, chosen.facts, most_characters)
    except case.TooLong as error:
        asked.failure, asked.detail = "too_long", str(error)
    else:
        served_own = partial(_served_own, judge, chosen) if not own_models else None
        _ask(asked, judge, key, shown, root, attempts, template, served_own, obtain)
    said = asked.answer
    return Judgement(
        judge=judge.name,
        model=judge.model,
        settings=judge.settings,
        candidate=chosen.candidate,
        candidate_sha256=chosen.candidate_sha256,
        reference_sha256=hashlib.sha256(reference).hexdigest(),
        template_sha256=case.template_sha256(template),
        case=shown.number if shown else None,
        package_version=kbverified.__version__,
        label=said.label if said else None,
        pattern=said.pattern if said else None,
        explanation=said.explanation if said else None,
        fix=said.fix if said else None,
        failure=asked.failure,
        failure_detail=asked.detail,
        attempts=tuple(asked.attempts),
    )


def _served_own(judge: LlmJudge, chosen: ChosenCandidate, served: str | None) -> str | None:
    return own(judge, chosen.model_names, chosen.family, served)


def _ask(
    asked: _Asked,
    judge: LlmJudge,
    key: CandidateKey,
    shown: case.Case,
    root: Path,
    attempts: int,
    template: Path,
    served_own: Callable[[str | None], str | None] | None,
    obtain: Obtain | None,
) -> None:
    """Ask until an answer is valid, and note what happened."""
    from kbverified import paid_answers

    obtain = obtain or paid_answers.obtain
    not_valid, name = None, f"LLM judge {judge.name} on {key}"
    for attempt in range(1, attempts + 1):
        messages = case.messages(shown, template, not_valid, attempt)
        obtained = obtain(judge, messages, judge.response_format, name=name, folder=store(root, judge.name))
        response = obtained.response
        understood = answer.read(response.content, shown.number)
        not_valid = _refused(response) or understood.why
        asked.attempts.append(
            Attempt(
                response_path=obtained.path.relative_to(root).as_posix(),
                prompt_sha256=response.prompt_sha256,
                served_model=response.served_model,
                finish_reason=response.finish_reason,
                prompt_tokens=response.prompt_tokens,
                completion_tokens=response.completion_tokens,
                not_valid=not_valid,
            )
        )
        if served_own and (why := served_own(response.served_model)):
            asked.failure, asked.detail = "own_model", why
            return
        if understood.answer is not None and not_valid is None:
            asked.answer = understood.answer
            return
    nothing = all(attempt.not_valid in (_REFUSED, answer.EMPTY) for attempt in asked.attempts)
    asked.failure, asked.detail = "no_answer" if nothing else "invalid_answer", not_valid


def _refused(response: StoredResponse) -> str | None:
    return _REFUSED if response.refusal and not response.content else None


# --- the command --------------------------------------------------------------------------------------------


def add_parser(subparsers: Any) -> None:
    """Add ``llm-judge`` to the command line."""
    parser = subparsers.add_parser("llm-judge", help="ask an LLM judge about one candidate, or replay its answer")
    parser.add_argument("--judge", required=True, help="the judge, as JSON: what the configuration says of it")
    parser.add_argument("--candidate", required=True, help="generator/suite/problem/sample")
    parser.add_argument("--chosen", type=Path, required=True, help="results/llm-judges/chosen.json")
    parser.add_argument("--attempts", type=int, required=True)
    parser.add_argument("--max-source-characters", type=int, required=True)
    parser.add_argument("--own-models", action="store_true", help="let it judge candidates of its own model")
    parser.add_argument("--template", type=Path, default=case.TEMPLATE)
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--out", type=Path, required=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write one judgement, 0: it is there. Raises ValueError, FileNotFoundError for bad input, EndpointFault and
    OSError where there is no answer and nothing was written."""
    try:
        judge = LlmJudge.model_validate(json.loads(args.judge))
    except ValidationError as error:
        raise ValueError(f"--judge: {error}") from None
    chosen = read(args.chosen, Chosen).find(args.candidate)
    if chosen is None:
        raise ValueError(f"{args.chosen}: {args.candidate} is not among those to be judged")
    if judge.name not in (*chosen.panel, *chosen.substitutes):
        why = chosen.kept_out.get(judge.name, "it is none of the judges")
        raise ValueError(f"{args.chosen}: {judge.name} does not judge {args.candidate}: {why}")
    made = judge_candidate(
        judge,
        chosen,
        args.root,
        attempts=args.attempts,
        most_characters=args.max_source_characters,
        own_models=args.own_models,
        template=args.template,
    )
    write(args.out, made)
    said = made.label or f"no label, {made.failure}: {made.failure_detail}"
    print(printable(f"{judge.name} on {args.candidate}: {said}"))
    return 0
