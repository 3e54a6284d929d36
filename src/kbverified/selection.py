"""From the configuration to keys: which problems and which candidates this run is about. Torch-free.

Bundled and imported candidates are the files that are there; the candidates of an API generator are every
selected problem times its number of samples, whether or not they have been generated yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kbverified.config import ConfigError, Selection
from kbverified.keys import PROBLEM_PATTERN, SAMPLE_PATTERN, CandidateKey, ProblemKey


class GeneratorRow(Protocol):
    """What selection needs to know of a row of the generators table."""

    @property
    def generator(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def samples(self) -> int | None: ...


@dataclass(frozen=True)
class Selected:
    """The keys of one run, each list sorted."""

    problems: tuple[ProblemKey, ...]
    candidates: dict[str, tuple[CandidateKey, ...]]
    """By generator, in the order of the table; never empty."""

    def all_candidates(self) -> list[CandidateKey]:
        return [key for keys in self.candidates.values() for key in keys]


def select(selection: Selection, rows: Iterable[GeneratorRow], root: Path = Path(".")) -> Selected:
    """Apply a selection to what lies under root.

    Raises ConfigError where a name in the selection does not exist, where nothing is selected, and where a
    sample file is named in a way that could be mistaken for another (``00.py`` beside ``0.py``).
    """
    problems = select_problems(selection, root)
    chosen = _chosen_rows(selection, list(rows))
    candidates = {row.generator: _candidates(selection, row, problems, root) for row in chosen}
    empty = [name for name, keys in candidates.items() if not keys]
    # ``all`` takes what is there; a generator that is asked for by name has to be there.
    if len(empty) == len(candidates) or (empty and selection.generators != "all"):
        places = ", ".join(str(root / "generations" / name) for name in empty)
        raise ConfigError(
            f"selection: no candidate of {', '.join(empty)} is left. Looked for {{suite}}/{{problem}}/{{sample}}.py of "
            f"{len(problems)} problems (suites {', '.join(selection.suites)}) in {places}. "
            "Import a run or widen the selection."
        )
    return Selected(problems, {name: keys for name, keys in candidates.items() if keys})


def select_problems(selection: Selection, root: Path = Path(".")) -> tuple[ProblemKey, ...]:
    """The selected problems, sorted by suite, level and number. Raises ConfigError where one does not exist."""
    found: list[ProblemKey] = []
    for suite in selection.suites:
        folder = root / "problems" / suite
        if not folder.is_dir():
            raise ConfigError(f"selection.suites: there is no folder {folder}. Import the suite or drop {suite!r}.")
        names = (entry.name.removesuffix(".py") for entry in os.scandir(folder) if entry.name.endswith(".py"))
        found.extend(ProblemKey(suite, name) for name in names if re.fullmatch(PROBLEM_PATTERN, name))
    if selection.problems != "all":
        wanted = set(selection.problems)
        known = {str(key) for key in found} | {key.problem for key in found}
        if missing := sorted(wanted - known):
            raise ConfigError(
                f"selection.problems: {', '.join(missing)} not found in problems/ of {', '.join(selection.suites)}"
            )
        found = [key for key in found if key.problem in wanted or str(key) in wanted]
    if selection.levels != "all":
        found = [key for key in found if key.level in selection.levels]
    if not found:
        raise ConfigError(f"selection: no problem is left (levels {selection.levels}, problems {selection.problems})")
    return tuple(sorted(found, key=lambda key: (key.suite, key.level, key.number)))


def _chosen_rows(selection: Selection, rows: list[GeneratorRow]) -> list[GeneratorRow]:
    if selection.generators == "all":
        if not rows:
            raise ConfigError("selection.generators: the generators table is empty")
        return rows
    known = {row.generator for row in rows}
    if missing := [name for name in selection.generators if name not in known]:
        raise ConfigError(
            f"selection.generators: {', '.join(missing)} not in the generators table, which has "
            f"{', '.join(sorted(known)) or 'no row'}"
        )
    return [row for row in rows if row.generator in selection.generators]


def _candidates(
    selection: Selection, row: GeneratorRow, problems: tuple[ProblemKey, ...], root: Path
) -> tuple[CandidateKey, ...]:
    if row.origin == "api":
        numbers = range(row.samples or 1) if selection.samples == "all" else selection.samples
        return tuple(CandidateKey(row.generator, p.suite, p.problem, n) for p in problems for n in sorted(numbers))
    return tuple(
        CandidateKey(row.generator, problem.suite, problem.problem, number)
        for problem in problems
        for number in _sample_numbers(root / "generations" / row.generator / problem.suite / problem.problem)
        if selection.samples == "all" or number in selection.samples
    )


def _sample_numbers(folder: Path) -> list[int]:
    try:
        names = [name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")]
    except FileNotFoundError:
        return []
    numbers = []
    for name in names:
        if not re.fullmatch(SAMPLE_PATTERN, name) or str(int(name)) != name:
            raise ConfigError(
                f"{folder / name}.py: a sample file is named by its number without leading zeros (0.py, 1.py, ...)"
            )
        numbers.append(int(name))
    return sorted(numbers)
