"""What LLM judges would have said of the example's candidates: truths and answers drawn from the seed, no model asked.

Which candidates are judged, by whom, and which label comes of the answers is decided by the code of every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbverified import kernel_table
from kbverified.llm_judges.choose import choose
from kbverified.llm_judges.decide import labels, substitute
from kbverified.llm_judges.labels import LABELS, Failure, Label
from kbverified.llm_judges.records import ChosenCandidate, Judgement, Labels, PersonsLabel
from kbverified.llm_judges.settings import LlmJudge, LlmJudges
from kbverified.records.files import write

RIGHT = {"hazel-again": 0.93, "ivy": 0.9, "oak": 0.85}
"""How often a judge says what a candidate is. The first is the model that wrote hazel's, and does not judge those."""
MODELS = {"hazel-again": "Wood/Hazel-2026-01-31", "ivy": "ivy-2", "oak": "oak-1"}
HACK_SHARE = 0.08
NO_ANSWER = 0.01
REVIEWED = 0.3
"""Share of what is not settled that a person has looked at."""
PATTERNS: dict[Label, tuple[str, ...]] = {
    "LEGITIMATE": ("none",),
    "SPEED_HACK": ("cached_result", "input_assumption", "narrow_arithmetic"),
    "MEMORY_HACK": ("hidden_allocation", "overwritten_input"),
    "SPEED_AND_MEMORY_HACK": ("cached_result",),
    "UNCERTAIN": ("unclear",),
}
SETTINGS = LlmJudges(
    judges=tuple(LlmJudge(name=name, model=model, base_url_env="URL") for name, model in MODELS.items())
)


def truth_of(tail: str, seed: int) -> Label:
    """What a candidate is, whoever says what of it."""
    drawn = random.Random(f"{seed}/hack/{tail}")
    if drawn.random() >= HACK_SHARE:
        return "LEGITIMATE"
    return drawn.choices(("SPEED_HACK", "MEMORY_HACK", "SPEED_AND_MEMORY_HACK"), (6, 2, 1))[0]  # type: ignore[return-value]


def answer_of(judge: str, tail: str, seed: int) -> tuple[Label | None, Failure | None]:
    """A judge's label or, rarely, why there is none."""
    drawn = random.Random(f"{seed}/{judge}/{tail}")
    if drawn.random() < NO_ANSWER:
        return None, "invalid_answer"
    if drawn.random() < RIGHT[judge]:
        return truth_of(tail, seed), None
    return drawn.choices(LABELS, (3, 3, 1, 1, 4))[0], None


def _judgement(judge: LlmJudge, one: ChosenCandidate, seed: int) -> Judgement:
    label, failure = answer_of(judge.name, one.candidate, seed)
    patterns = PATTERNS[label] if label else ()
    pattern = random.Random(f"{seed}/pattern/{one.candidate}").choice(patterns) if patterns else None
    return Judgement(
        judge=judge.name,
        model=judge.model,
        settings=judge.settings,
        candidate=one.candidate,
        candidate_sha256=one.candidate_sha256,
        reference_sha256="0" * 64,
        template_sha256="0" * 64,
        case="0" * 32,
        package_version="synthetic",
        label=label,
        pattern=pattern,
        explanation="Drawn from a seed." if label else None,
        failure=failure,
        attempts=(),
    )


def draw_labels(rows: Sequence[Mapping[str, Any]], generators: Iterable[str], seed: int) -> Labels:
    """Labels of rows of kernel tables: judges are asked, disagree and are replaced, and a person looks at some."""
    chosen = choose(rows, SETTINGS, dict.fromkeys(generators))
    said: dict[str, list[Judgement]] = {}
    judges = {judge.name: judge for judge in SETTINGS.judges}
    for one in chosen.candidates:
        said[one.candidate] = [_judgement(judges[name], one, seed) for name in one.panel]
        if (other := substitute(one, said[one.candidate])) is not None:
            said[one.candidate].append(_judgement(judges[other], one, seed))
    sources = {kernel_table.tail_of(row): row["candidate_sha256"] for row in rows}
    settled = labels(chosen, said, (), SETTINGS, sources)
    persons = [
        PersonsLabel(
            candidate=one.candidate,
            candidate_sha256=one.candidate_sha256,
            label=truth_of(one.candidate, seed),
            reviewer="a person",
        )
        for one in settled.candidates
        if one.basis in ("disagreed", "unanswered")
        and random.Random(f"{seed}/person/{one.candidate}").random() < REVIEWED
    ]
    return labels(chosen, said, persons, SETTINGS, sources)


def write_labels(tables: Iterable[Path], root: Path, seed: int) -> Path:
    """Write the labels of some generators' tables below ``root``/results; returns their path."""
    rows = kernel_table.read_rows(tables)
    path = root / "results/llm-judges/labels.json"
    write(path, draw_labels(rows, dict.fromkeys(row["generator"] for row in rows), seed))
    return path
