"""What the workflow asks about LLM judges: whom to ask, whom to ask besides, and what came of it, all as files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kbverified import kernel_table
from kbverified.keys import candidate_tail
from kbverified.llm_judges import review
from kbverified.llm_judges.choose import choose
from kbverified.llm_judges.decide import labels, substitute
from kbverified.llm_judges.records import Chosen, ChosenCandidate, Judgement, Labels, Substitutes
from kbverified.llm_judges.settings import LlmJudges
from kbverified.records.files import read, write, write_text

FOLDER = Path("results/llm-judges")


def judgement_path(judge: str, candidate: str) -> str:
    return f"{FOLDER}/{judge}/{candidate}.json"


def kernel_paths(settings: LlmJudges, generators: Iterable[str]) -> list[str]:
    """The tables from which candidates are chosen. Raises ValueError where no judge is configured."""
    if not settings.judges:
        raise ValueError("no LLM judge is configured: name two at least under llm_judges (docs/llm-judges.md)")
    return [f"results/kernels/{name}.parquet" for name in generators]


def panel_paths(chosen: str) -> list[str]:
    """The judgements that are asked for first, of every chosen candidate. Raises RecordError, OSError."""
    found = _by_candidate(Path(chosen)).values()
    return [judgement_path(judge, one.candidate) for one in found for judge in one.panel]


def substitute_paths(substitutes: str) -> list[str]:
    """The judgements that are asked for where those disagree. Raises RecordError, OSError."""
    found = read(Path(substitutes), Substitutes)
    return [judgement_path(judge, candidate) for candidate, judge in found.judges.items()]


def question_of(chosen: Path, key: Any) -> str:
    """Sha256 (hex) of what is known of a chosen candidate (``key`` has its four parts): with it changes what its judges
    are asked. A word where it is not chosen, or nothing is yet."""
    candidate = candidate_tail(key.generator, key.suite, key.problem, key.sample)
    try:
        found = _by_candidate(chosen).get(candidate)
    except FileNotFoundError:
        return "not there yet"
    if found is None:
        return "not chosen"
    told = found.model_copy(update={"why": "sample", "panel": (), "substitutes": (), "kept_out": {}})
    return hashlib.sha256(told.model_dump_json().encode()).hexdigest()


def _by_candidate(chosen: Path) -> dict[str, ChosenCandidate]:
    return _read(chosen, chosen.stat().st_mtime_ns)


@cache
def _read(path: Path, mtime_ns: int) -> dict[str, ChosenCandidate]:
    return {one.candidate: one for one in read(path, Chosen).candidates}


# --- the rules ----------------------------------------------------------------------------------------------


def write_chosen(kernels: Iterable[Path], settings: LlmJudges, models: dict[str, str | None], out: Path) -> Chosen:
    """Choose from kernel tables. Raises ValueError, FileNotFoundError."""
    rows = kernel_table.read_rows(kernels)
    chosen = choose(rows, settings, models)
    write(out, chosen)
    return chosen


def write_substitutes(chosen: Path, judgements: Iterable[Path], out: Path) -> Substitutes:
    """Whom to ask besides, from the judgements of the panels. Raises ValueError, FileNotFoundError."""
    said = _by_name(judgements)
    asked = {
        one.candidate: judge
        for one in _by_candidate(chosen).values()
        if (judge := substitute(one, said.get(one.candidate, []))) is not None
    }
    found = Substitutes(judges=asked)
    write(out, found)
    return found


def _by_name(judgements: Iterable[Path]) -> dict[str, list[Judgement]]:
    found: dict[str, list[Judgement]] = {}
    for path in judgements:
        one = read(path, Judgement)
        found.setdefault(one.candidate, []).append(one)
    return found


def write_labels(
    chosen: Path,
    kernels: Iterable[Path],
    judgements: Sequence[Path],
    settings: LlmJudges,
    out: Path,
    queue: Path,
) -> Labels:
    """Every label, and what a person should look at; the person's own file is read and never written.

    Raises ValueError (RecordError and review.ReviewError are some), FileNotFoundError.
    """
    rows = kernel_table.read_rows(kernels)
    sources = {kernel_table.tail_of(row): row["candidate_sha256"] for row in rows}
    persons = review.read_review(Path(settings.review))
    made = labels(read(chosen, Chosen), _by_name(judgements), persons, settings, sources)
    write(out, made)
    write_text(queue, review.queue_text(made))
    return made
