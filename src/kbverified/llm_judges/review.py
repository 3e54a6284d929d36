"""What a person should look at, and the file in which they say what it is.

The queue (``results/llm-judges/queue.csv``) is an output of the workflow and made again at will. The review file
(``judgements/review.csv``) is a person's: no rule writes or deletes it. ``kbverified llm-review`` appends to it what is
in the queue and not yet there, and changes nothing that is.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kbverified.exit_codes import EXIT_BAD_INPUT
from kbverified.keys import CandidateKey
from kbverified.llm_judges.labels import LABELS
from kbverified.llm_judges.records import Labelled, Labels, PersonsLabel
from kbverified.llm_judges.visible import visible

QUEUE = Path("results/llm-judges/queue.csv")
REVIEW = Path("judgements/review.csv")
COLUMNS = ("candidate", "candidate_sha256", "label", "reviewer", "note", "said", "why", "explanation")
"""A person fills in ``label``, and ``reviewer`` and ``note`` if they like; the last three are for them to read."""
_NEEDED = COLUMNS[:3]
_EXPLANATION_CHARACTERS = 500


class ReviewError(ValueError):
    """A review file that cannot be used. The message names file, line, column and value."""


def needs_a_person(one: Labelled) -> str | None:
    """Why somebody should look at a candidate; None where a person has, or its judges agree that it is legitimate."""
    if one.basis == "person":
        return None
    if one.basis in ("disagreed", "unanswered"):
        return {"disagreed": "the judges disagree", "unanswered": "too few judges gave an answer"}[one.basis]
    if one.label != "LEGITIMATE":
        return (
            "called a hack: it is left out until a person says otherwise" if one.label != "UNCERTAIN" else "uncertain"
        )
    return "called legitimate by a majority only" if one.basis == "majority" else None


def queue(labels: Labels) -> list[Labelled]:
    """What a person should look at, faster candidates and disagreements first."""
    waiting = [one for one in labels.candidates if needs_a_person(one)]
    urgent = {"disagreed": 0, "unanswered": 1, "majority": 2, "agreed": 3, "person": 4}
    return sorted(waiting, key=lambda one: (one.why == "sample", urgent[one.basis], one.candidate))


def queue_text(labels: Labels) -> str:
    """The queue as CSV, in the columns of the review file."""
    return _csv([COLUMNS, *(_row(one) for one in queue(labels))])


def _row(one: Labelled) -> list[str]:
    said = "; ".join(f"{vote.judge}: {vote.label or f'no label ({vote.failure})'}" for vote in one.votes)
    told = next((vote for vote in one.votes if vote.explanation and vote.label != "LEGITIMATE"), None)
    text = f"{told.judge}: {told.pattern}: {told.explanation}" if told else ""
    return [one.candidate, one.candidate_sha256, "", "", "", said, needs_a_person(one) or "", text]


def _csv(rows: Iterable[Sequence[str]]) -> str:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([[_cell(cell) for cell in row] for row in rows])
    return lines.getvalue()


def _cell(text: str) -> str:
    """One line, that no spreadsheet takes for a formula: what models say may quote a candidate."""
    line = visible(" ".join(text.split()))[:_EXPLANATION_CHARACTERS]
    return f"'{line}" if line[:1] in ("=", "+", "-", "@") else line


# --- the person's file --------------------------------------------------------------------------------------


def read_review(path: Path) -> list[PersonsLabel]:
    """The labels in a review file, those left empty passed over; none where there is no file.

    Commas, semicolons or tabs between cells, as spreadsheets write them; columns in any order, others ignored. Raises
    ReviewError with file, line, column and value.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise ReviewError(f"{path}: not UTF-8 at byte {error.start}. Save the file as CSV in UTF-8.") from None
    if not text.strip():
        return []
    first = text.lstrip().split("\n", 1)[0]
    delimiter = max((",", ";", "\t"), key=first.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header = [name.strip() for name in reader.fieldnames or []]
    if missing := [name for name in _NEEDED if name not in header]:
        raise ReviewError(f"{path}: line 1: no column {', '.join(missing)}; the columns are {', '.join(COLUMNS)}")
    reader.fieldnames = header
    found: dict[tuple[str, str], PersonsLabel] = {}
    for row in _rows(path, reader):
        one = _label(f"{path}: line {reader.line_num}", {k: (row[k] or "").strip() for k in header})
        if one is None:
            continue
        before = found.get((one.candidate, one.candidate_sha256))
        if before is not None and before.label != one.label:
            raise ReviewError(
                f"{path}: line {reader.line_num}: column candidate: {one.candidate} has another label above"
            )
        found[one.candidate, one.candidate_sha256] = one
    return list(found.values())


def _rows(path: Path, reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise ReviewError(f"{path}: line {reader.line_num}: not CSV: {error}") from None


def _label(where: str, cells: dict[str, str]) -> PersonsLabel | None:
    label = cells["label"].upper().replace(" ", "_")
    if not label:
        return None
    if label not in LABELS:
        raise ReviewError(f"{where}: column label: {cells['label']!r} is none of {', '.join(LABELS)}")
    try:
        candidate = str(CandidateKey.from_tail(cells["candidate"]))
    except ValueError as error:
        raise ReviewError(f"{where}: column candidate: {error}") from None
    sha = cells["candidate_sha256"].lower()
    if len(sha) != 64 or set(sha) - set("0123456789abcdef"):
        raise ReviewError(f"{where}: column candidate_sha256: {sha!r} is no sha256: copy it from the queue")
    return PersonsLabel(
        candidate=candidate,
        candidate_sha256=sha,
        label=label,  # type: ignore[arg-type]
        reviewer=cells.get("reviewer") or None,
        note=cells.get("note") or None,
    )


def extend(path: Path, queued: Path) -> int:
    """Append to a person's file what a queue has and the file does not name; returns how many. What is there stays.

    Raises ReviewError for a file with other columns than COLUMNS, to which nothing can be appended.
    """
    rows = list(csv.reader(io.StringIO(queued.read_text(encoding="utf-8"), newline="")))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:  # appending only: whatever else writes to the file meanwhile is kept
        file.seek(0)
        there = file.read()
        text = there.decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, newline="")))
        if lines and tuple(name.strip() for name in lines[0]) != COLUMNS:
            raise ReviewError(
                f"{path}: line 1: to be appended to, its columns have to be {','.join(COLUMNS)}, with commas"
            )
        named = {tuple(line[:2]) for line in lines[1:]}
        new = [row for row in rows[1:] if tuple(row[:2]) not in named]
        if not new and lines:
            return 0
        begin = "\n" if there and not there.endswith(b"\n") else ""
        file.write((begin + _csv([*([] if lines else [COLUMNS]), *new])).encode())
        file.flush()
        os.fsync(file.fileno())
    return len(new)


# --- the command --------------------------------------------------------------------------------------------


def add_parser(subparsers: Any) -> None:
    """Add ``llm-review`` to the command line."""
    parser = subparsers.add_parser("llm-review", help="add to your review file what LLM judges leave to a person")
    parser.add_argument("--queue", type=Path, default=QUEUE)
    parser.add_argument("--review", type=Path, default=REVIEW, help="as llm_judges.review in the configuration")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Extend the review file. 0: done; 2: it, or the queue, cannot be used."""
    try:
        n = extend(args.review, args.queue)
        labelled = read_review(args.review)
    except FileNotFoundError:
        print(f"There is no {args.queue}. Run snakemake llm_judges first, or name it with --queue.", file=sys.stderr)
        return EXIT_BAD_INPUT
    except ValueError as error:
        print(f"llm-review: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(f"{args.review}: {n} candidates appended, {len(labelled)} have a label.")
    print(f"Write one of {', '.join(LABELS)} into column label, then run snakemake again.")
    return 0
