"""A leaderboard's files: JSON (everything), CSV (flat), Markdown (to read).

They depend on the leaderboard alone: no times, no paths. Each is replaced atomically.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from kbverified.leaderboard.markdown import markdown_text
from kbverified.leaderboard.model import Entry, Estimate, Leaderboard
from kbverified.records.files import write_text

PAGE_NAME = "leaderboard.html"
"""The page beside them, which kbverified.page makes."""
FILE_NAMES = {"json": "leaderboard.json", "csv": "leaderboard.csv", "md": "leaderboard.md"}


def write(leaderboard: Leaderboard, directory: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md into a folder and return their paths. Raises OSError."""
    paths = [directory / name for name in FILE_NAMES.values()]
    for path, text in zip(paths, (json_text(leaderboard), csv_text(leaderboard), markdown_text(leaderboard))):
        write_text(path, text)
    return paths


def json_text(leaderboard: Leaderboard) -> str:
    return leaderboard.model_dump_json(indent=1) + "\n"


_ENTRY_FIELDS = (
    "generator", "dtype", "suite", "level", "arm", "test", "n_problems", "n_without_candidate", "n_samples", "n_solved",
    "n_undecidable", "n_solved_non_discriminating", "n_timed", "n_implausible", "n_below_floor",
)  # fmt: skip


def csv_text(leaderboard: Leaderboard) -> str:
    """One line per entry; each estimate as value, _low, _high, _n. Null is empty, the level of all is ``all``."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    estimates = [name for name, _ in _estimates(leaderboard.entries[0])] if leaderboard.entries else []
    audited = ("n_judged", "n_excluded", "n_excluded_by_person") if leaderboard.audit is not None else ()
    header = [*_ENTRY_FIELDS, *(f"{n}{end}" for n in estimates for end in ("", "_low", "_high", "_n")), *audited]
    writer.writerow(header)
    for entry in leaderboard.entries:
        values = ["all" if f == "level" and entry.level is None else getattr(entry, f) for f in _ENTRY_FIELDS]
        for _, estimate in _estimates(entry):
            values += [estimate.value, estimate.low, estimate.high, estimate.n]
        values += [getattr(entry.audited, field, None) for field in audited]
        writer.writerow(["" if value is None else value for value in values])
    return lines.getvalue()


def _estimates(entry: Entry) -> Iterator[tuple[str, Estimate]]:
    yield "correctness", entry.correctness
    yield "correct_speedup", entry.correct_speedup
    yield from ((f"fast_{p}", estimate) for p, estimate in entry.fast_p.items())
    for part in entry.by_numerics:
        yield f"correctness_{'_or_'.join(part.classes)}", part.correctness
        yield f"correct_speedup_{'_or_'.join(part.classes)}", part.correct_speedup
    if entry.audited is not None:
        yield "correctness_audited", entry.audited.correctness
        yield "correct_speedup_audited", entry.audited.correct_speedup
    yield "sol_score", entry.sol_score
    yield from ((f"memory_efficiency_{name}", estimate) for name, estimate in entry.memory_efficiency.items())
    yield from ((f"memory_efficient_{name}", estimate) for name, estimate in entry.memory_efficient.items())
