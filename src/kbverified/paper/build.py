"""Which topics the paper has, and writing each of them: tables, figures and findings, every file from one topic alone.

Nothing heavy is imported before a topic is built: the workflow reads TOPICS to know the names of the files.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbverified.paper.finding import Finding
    from kbverified.paper.inputs import PaperInputs

TABLE_ENDINGS = ("csv", "md", "tex")
FIGURE_ENDINGS = ("pdf", "png")


@dataclass(frozen=True)
class Topic:
    """A module of ``topics/`` by its name, and the names of the tables and figures that it makes, whatever the data."""

    name: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def paths(self) -> list[str]:
        """Every file that the topic writes, relative to the paper's folder."""
        return [
            *(f"tables/{name}.{ending}" for name in self.tables for ending in TABLE_ENDINGS),
            *(f"figures/{name}.{ending}" for name in self.figures for ending in FIGURE_ENDINGS),
            f"findings/{self.name}.json",
        ]


TOPICS: tuple[Topic, ...] = (
    Topic("headline", tables=("headline",)),
    Topic("verified", tables=("verified_fp32", "verified_bf16", "verified_fast_p", "verified_common")),
    Topic(
        "memory",
        tables=(
            *(f"memory_{figure}" for figure in ("allocator_peak", "allocator_above", "device_peak", "device_above")),
            "memory_quadrants",
        ),
        figures=tuple(
            f"memory_speed_{what}_{figure}"
            for what in ("levels", "kernels")
            for figure in ("allocator_peak", "device_peak")
        ),
    ),
    Topic("arms", tables=("arms", "arms_fast_1")),
    Topic("deflation", tables=("deflation", "deflation_steps"), figures=("deflation",)),
    Topic("speedups", tables=("speedups",), figures=("speedups",)),
    Topic("roofline", tables=("roofline",), figures=("roofline",)),
    Topic("decomposition", ("decomposition", "decomposition_counts", "decomposition_problems"), ("decomposition",)),
    Topic(
        "tolerance",
        ("tolerance", "tolerance_published", "tolerance_selection"),
        ("tolerance_correctness", "tolerance_speedup"),
    ),
    Topic(
        "best_of_n",
        ("best_of_n", "best_of_n_tests", "best_of_n_selection"),
        ("best_of_n_pass", "best_of_n_speedup"),
    ),
    Topic("bf16", ("bf16", "bf16_common"), ("bf16", "bf16_problems")),
    Topic(
        "failures",
        tables=(
            "failures_by_distribution",
            "failures_alone",
            "failures_hardened",
            *(f"verdicts_{t}" for t in ("standard", "hidden", "hardened")),
        ),
        figures=("failures_by_distribution",),
    ),
    Topic("problems", tables=("problems_counts", "problems_apart")),
    Topic("environment", tables=("environment", "protocol")),
    Topic(
        "llm_judges",
        tables=("llm_judges", *(f"llm_judges_{what}" for what in ("judges", "agreement", "patterns", "audited"))),
    ),
    Topic("aa", tables=("aa",), figures=("aa",)),
    Topic("published", tables=("published", "published_unanswered", "published_sets")),
)


def rules() -> list[str]:
    """The names of the workflow's rules that make the paper from tables that are there (workflow/rules/paper.smk)."""
    return ["paper", "paper_findings", *(f"paper_{found.name}" for found in TOPICS)]


def topic(name: str) -> Topic:
    """The topic of a name. Raises ValueError where TOPICS has none."""
    for found in TOPICS:
        if found.name == name:
            return found
    raise ValueError(f"the paper has no topic {name!r}; it has {', '.join(t.name for t in TOPICS) or 'none'}")


def module_of(found: Topic) -> ModuleType:
    """The topic's module. Raises ModuleNotFoundError where build.TOPICS names one that is not there."""
    return importlib.import_module(f"kbverified.paper.topics.{found.name}")


def write_topic(found: Topic, inputs: PaperInputs, folder: Path, module: ModuleType | None = None) -> list[Path]:
    """Write all files of one topic below the paper's folder and return their paths.

    Raises ValueError where the module makes other tables or figures than TOPICS says, OSError.
    """
    from kbverified.paper import finding, style, table
    from kbverified.records.files import write_text

    module = module or module_of(found)
    tables = {made.name: made for made in module.tables(inputs)} if hasattr(module, "tables") else {}
    _check(found, "tables", found.tables, list(tables))
    style.apply()  # before a figure is begun
    figures = module.figures(inputs) if hasattr(module, "figures") else {}
    _check(found, "figures", found.figures, list(figures))
    findings: Sequence[Finding] = module.findings(inputs) if hasattr(module, "findings") else ()
    texts = {"csv": table.to_csv, "md": table.to_markdown, "tex": table.to_latex}
    for name in found.tables:
        for ending in TABLE_ENDINGS:
            write_text(folder / f"tables/{name}.{ending}", texts[ending](tables[name]))
    for name in found.figures:
        style.save(figures[name], folder / "figures", name)
    write_text(folder / f"findings/{found.name}.json", finding.to_json(findings))
    return [folder / path for path in found.paths()]


def _check(found: Topic, what: str, declared: Sequence[str], made: Sequence[str]) -> None:
    if sorted(declared) != sorted(made):
        raise ValueError(
            f"topic {found.name} makes the {what} {sorted(made)}, but build.TOPICS says {sorted(declared)}: "
            "they are made whatever the data; where there is nothing to say, the note says why"
        )


def write_findings(inputs: PaperInputs, folder: Path, topics: Iterable[Topic] = TOPICS) -> Path:
    """Write findings.md from what the topics have written. Raises FileNotFoundError where one has not."""
    from kbverified.paper import assembly, finding
    from kbverified.records.files import write_text

    found = [one for t in topics for one in finding.from_json((folder / f"findings/{t.name}.json").read_text("utf-8"))]
    path = folder / "findings.md"
    write_text(path, assembly.markdown(found, inputs))
    return path


def build(inputs: PaperInputs, folder: Path, topics: Sequence[Topic] = TOPICS) -> list[Path]:
    """Write the whole paper below a folder and return the paths of its files. Raises as write_topic."""
    paths = [path for found in topics for path in write_topic(found, inputs, folder)]
    return [*paths, write_findings(inputs, folder, topics)]
