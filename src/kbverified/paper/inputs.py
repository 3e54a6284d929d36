"""Everything that the paper is made from, read once: kernel tables, audits, the leaderboard, and the settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from kbverified import kernel_table, leaderboard
from kbverified.aggregation import AggregationSettings, load_problems
from kbverified.keys import ProblemKey
from kbverified.leaderboard.model import Leaderboard
from kbverified.leaderboard.scopes import Scope, dtype_of, scopes, why_inactive
from kbverified.llm_judges.records import Labels
from kbverified.paper import published as published_numbers
from kbverified.records.files import read
from kbverified.records.problem import ProblemRecord
from kbverified.verdicts import Test

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class PaperInputs:
    """All that a topic may look at. Derived views are made once, when first asked for.

    Two are equal only where they are one and the same, so that a topic may keep (functools.cache) what it has computed.
    """

    kernels: pd.DataFrame
    """Rows of all generators (columns kernel_table.COLUMNS): generators in the order in which they were named, then
    suite, level, number, sample."""
    problems: dict[ProblemKey, ProblemRecord]
    """Audits of the selected problems, by suite, level and number."""
    leaderboard: Leaderboard
    settings: AggregationSettings
    taus: tuple[float, ...]
    """Tolerances of the sensitivity tables, in the order of the configuration."""
    published: Mapping[str, Any] | None = None
    """Published numbers to stand beside the measured ones (config/published.json); None: nothing to compare with."""
    published_suite: str = "kernelbench"
    """The suite that the published numbers are about."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a generator is called in the published numbers; one that is not named there has its own name."""
    references: tuple[str, ...] = ()
    """Generators that consist of renamed references: their numbers are an A/A study and say nothing of a model."""
    labels: Labels | None = None
    """What LLM judges, or a person, say of candidates; None: nobody audited."""

    @cached_property
    def generators(self) -> tuple[str, ...]:
        """Names in the order of ``kernels``: that of every table, and of the colours."""
        return tuple(summary.generator for summary in self.leaderboard.generators)

    @cached_property
    def rows(self) -> dict[str, list[Row]]:
        """Each generator's rows as dictionaries, null as None; an empty list for one without candidates."""
        found: dict[str, list[Row]] = {name: [] for name in self.generators}
        for row in kernel_table.rows(self.kernels):
            found[row["generator"]].append(row)
        return found

    @cached_property
    def dtypes(self) -> dict[str, str | None]:
        """``fp32``, ``bf16``, both joined by ``+``, or None where nothing was evaluated, by generator."""
        return {name: dtype_of(rows) for name, rows in self.rows.items()}

    @cached_property
    def scopes(self) -> list[dict[Test, Scope]]:
        """Each suite's levels, then the suite (level None), per test, with the leaderboard's own resamples."""
        return scopes(self.problems, self.dtypes.values(), self.settings)

    @cached_property
    def active(self) -> tuple[ProblemKey, ...]:
        """The active problems: selected, usable and not degenerate. The denominator of every share."""
        return tuple(key for key, problem in self.problems.items() if not why_inactive(problem))


def load(
    root: Path,
    generators: Sequence[str],
    problems: Iterable[ProblemKey],
    settings: AggregationSettings,
    taus: Sequence[float],
    published: Path | None = None,
    leaderboard_path: Path | None = None,
    labels_path: Path | None = None,
    **about_generators: Any,
) -> PaperInputs:
    """Read ``results/`` below a root: the tables of some generators, the audits of the selected problems.

    The leaderboard is read from ``leaderboard_path``, or built where that is None; ``labels_path``: those of LLM
    judges, where there are any. ``about_generators``: what ``make`` takes by name. Raises FileNotFoundError for a
    missing table, ValueError (RecordError is one) for a missing audit and for a file that cannot be used.
    """
    tables = {name: kernel_table.read_parquet(root / f"results/kernels/{name}.parquet") for name in generators}
    selected = list(problems)
    audits = {key: found for key, found in load_problems(root, selected).items() if found is not None}
    if missing := [key for key in selected if key not in audits]:
        raise ValueError(f"{missing[0].record_path(root)}: no audit of a selected problem. Run snakemake first.")
    board = read(leaderboard_path, Leaderboard) if leaderboard_path else None
    labels = read(labels_path, Labels) if labels_path else None
    told = read_published(published) if published else None
    return make(tables, audits, settings, taus, told, board, labels=labels, **about_generators)


def make(
    tables: Mapping[str, pd.DataFrame],
    problems: Mapping[ProblemKey, ProblemRecord],
    settings: AggregationSettings,
    taus: Sequence[float],
    published: Mapping[str, Any] | None = None,
    board: Leaderboard | None = None,
    *,
    published_suite: str = "kernelbench",
    names: Mapping[str, str] | None = None,
    references: Sequence[str] = (),
    labels: Labels | None = None,
) -> PaperInputs:
    """Inputs from what is in memory; the leaderboard is built where none is given.

    Raises ValueError where tolerances or tables cannot be used, or a leaderboard is one of other generators.
    """
    if not taus or min(taus) <= 0 or len(set(taus)) < len(taus):
        raise ValueError(f"taus: {list(taus)}: name positive tolerances, each once")
    ordered = dict(sorted(problems.items(), key=lambda item: (item[0].suite, item[0].level, item[0].number)))
    board = board or leaderboard.build(tables, ordered, settings, labels=labels)
    if list(tables) != [summary.generator for summary in board.generators]:
        named = ", ".join(summary.generator for summary in board.generators)
        raise ValueError(f"the leaderboard is one of {named}, the tables are of {', '.join(tables)}: build it again")
    empty = kernel_table.frame([])
    sorted_tables = [t.sort_values(["suite", "level", "number", "sample"], kind="stable") for t in tables.values()]
    kernels = pd.concat(sorted_tables or [empty], ignore_index=True)
    given = (tuple(taus), published, published_suite, dict(names or {}), tuple(references), labels)
    return PaperInputs(kernels, ordered, board, settings, *given)


def read_published(path: Path) -> Mapping[str, Any]:
    """Published numbers, in the shape of config/published.json. Raises ValueError naming file and field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("source"), str):
        raise ValueError(f"{path}: field source: say in a sentence where the numbers were published")
    for where, value, wanted in published_numbers.misshapen(content):
        raise ValueError(f"{path}: field {where}: {str(value)[:80]!r} is not {wanted}")
    return content


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number that was published")
