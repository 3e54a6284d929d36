"""From the records of a check to its row, its outcome and its JSON, by the aggregation's own functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbverified import __version__
from kbverified.aggregation import AggregationSettings, MixedEnvironments, row_of
from kbverified.candidate_records import Environments, read_candidate, read_problem
from kbverified.check import outcome as outcomes
from kbverified.check.chain import Done
from kbverified.check.outcome import Outcome
from kbverified.check.place import Place
from kbverified.check.question import MachineFault, Question
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import StageRecord
from kbverified.static_view.reader import Reader


@dataclass(frozen=True)
class Judged:
    """One candidate's row of the kernel table, and what it comes to."""

    row: Mapping[str, Any]
    outcome: Outcome
    details: Mapping[str, str]
    """What the stages' records say beside their verdicts, by stage."""


def require_usable(done: Done, question: Question) -> None:
    """Raises ValueError where the problem itself cannot be used: no candidate can be judged on it."""
    if isinstance(done.record, ProblemRecord) and not done.record.usable:
        raise ValueError(f"problem {question.problem.path} cannot be used: {done.record.detail}")


def judge(place: Place) -> Judged:
    """The row of the records under a place, as the kernel table has it, and the outcome.

    Raises MachineFault where stages ran on different devices, RecordError for a record that cannot be true.
    """
    question = place.question
    settings = AggregationSettings(tau={question.dtype: question.tau}, baselines=question.baselines)
    found = read_candidate(
        place.root, question.key, read_problem(place.root, question.key.problem_key), settings.baselines
    )
    environments = Environments()
    environments.add(found)
    try:
        environments.check()
    except MixedEnvironments as error:
        raise MachineFault(
            f"the stages ran on different devices: name one GPU in CUDA_VISIBLE_DEVICES.\n{error}"
        ) from None
    with Reader() as reader:
        row = row_of(found, settings, reader)
    said = {stage: record.detail for stage, record in found.stages.items() if record is not None and record.detail}
    return Judged(row, outcomes.of(row, found.stages, question.test), said)


def document(judged: Judged, question: Question, steps: Sequence[Done], keep: Path | None) -> str:
    """Everything as JSON: outcome, each step, and the row with the kernel table's columns (docs/records.md)."""
    return json.dumps(
        {
            "kbverified": __version__,
            "outcome": judged.outcome.word,
            "exit_code": judged.outcome.exit_code,
            "test": question.test,
            "verdict": judged.outcome.verdict,
            "reason": judged.outcome.reason,
            "candidate": str(question.candidate),
            "problem": str(question.problem.path),
            "steps": [_step(step) for step in steps],
            "row": dict(judged.row),
            "kept": str(keep.absolute()) if keep is not None else None,
        },
        indent=1,
        allow_nan=False,
    )


def _step(step: Done) -> dict[str, Any]:
    record = step.record
    stage = record if isinstance(record, StageRecord) else None
    return {
        "step": step.name,
        "duration_s": round(step.duration_s, 3),
        "from_cache": step.from_cache,
        "status": getattr(record, "status", "ok"),
        "verdict": stage.verdict if stage is not None else None,
        "reason": stage.reason if stage is not None else None,
        "detail": getattr(record, "detail", None),
    }
