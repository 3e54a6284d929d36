"""From the configuration to keys: which problems and which candidates this run is about. Torch-free.

Bundled and imported candidates are the files that are there; the candidates of an API generator are every
selected problem times its number of samples, whether or not they have been generated yet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from kbverified.config import ConfigError, Selection
from kbverified.generators import GeneratorSpec, discover_candidates
from kbverified.keys import PROBLEM_PATTERN, CandidateKey, ProblemKey


@dataclass(frozen=True)
class Selected:
    """The keys of one run."""

    problems: tuple[ProblemKey, ...]
    """Sorted by suite, level and number."""
    candidates: dict[str, tuple[CandidateKey, ...]]
    """By generator, in the order of the table; never empty."""


def select(
    selection: Selection, specs: Iterable[GeneratorSpec], device: Literal["cuda", "cpu"], root: Path = Path(".")
) -> Selected:
    """Apply a selection to what lies under root.

    What was written for another device than the one in use is left out: generators by their ``devices`` column,
    bundled candidates also one by one. Raises ConfigError where a name in the selection does not exist and where
    nothing is left, GeneratorError for a sample file whose name is not its number.
    """
    problems = select_problems(selection, root)
    chosen = _chosen_specs(selection, list(specs))
    fitting = [spec for spec in chosen if spec.devices in ("any", device)]
    candidates = {spec.generator: _candidates(selection, spec, problems, device, root) for spec in fitting}
    empty = [name for name, keys in candidates.items() if not keys]
    # ``all`` takes what is there; a generator that is asked for by name has to be there.
    if len(empty) == len(candidates) or (empty and selection.generators != "all"):
        places = ", ".join(str(root / "generations" / name) for name in empty) or "the generators table"
        raise ConfigError(
            f"selection: no candidate of {', '.join(empty or [s.generator for s in chosen])} is left for device "
            f"{device}. Looked for {{suite}}/{{problem}}/{{sample}}.py of {len(problems)} problems (suites "
            f"{', '.join(selection.suites)}) in {places}. Import a run or widen the selection."
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


def _chosen_specs(selection: Selection, specs: list[GeneratorSpec]) -> list[GeneratorSpec]:
    known = {spec.generator for spec in specs}
    if not known:
        raise ConfigError("selection.generators: the generators table has no row")
    if selection.generators == "all":
        return specs
    if missing := [name for name in selection.generators if name not in known]:
        raise ConfigError(
            f"selection.generators: {', '.join(missing)} not in the generators table, which has "
            f"{', '.join(sorted(known))}"
        )
    return [spec for spec in specs if spec.generator in selection.generators]


def _candidates(
    selection: Selection, spec: GeneratorSpec, problems: tuple[ProblemKey, ...], device: str, root: Path
) -> tuple[CandidateKey, ...]:
    keys = [
        key
        for suite, of_suite in groupby(problems, key=lambda problem: problem.suite)
        for key in discover_candidates(root, spec, suite, [problem.problem for problem in of_suite])
        if selection.samples == "all" or key.sample in selection.samples
    ]
    if spec.origin == "bundled":
        keys = [key for key in keys if _written_for(key, root) in ("any", device)]
    return tuple(keys)


def _written_for(key: CandidateKey, root: Path) -> str:
    """The device that a bundled candidate's metadata names; any where it names none."""
    try:
        metadata = json.loads(key.metadata_path(root).read_bytes())
        return str(metadata["settings"]["devices"])
    except (OSError, ValueError, KeyError, TypeError):
        return "any"
