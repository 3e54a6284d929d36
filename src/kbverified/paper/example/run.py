"""The example as a run: its candidates, and their tables by the code that aggregates every run.

All 9,430 candidates as files would be 50,000 of them, and minutes. So records are made and aggregated in memory, one
candidate after the other, and ``write_records`` writes a part as files too, where a test finds that both ways agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings, CandidateRecords, aggregate_generator, row_of
from kbverified.keys import EVERY_STAGE, CandidateKey, ProblemKey
from kbverified.paper.example import stages
from kbverified.paper.example.audits import DEVICE, audit, ceilings, problem_source, source_of
from kbverified.paper.example.truth import (
    NARROW,
    NARROW_SAMPLES,
    RENAMED,
    RENAMED_PROBLEMS,
    RENAMED_SAMPLES,
    SAMPLES,
    SKILL,
    CandidateTruth,
    ProblemTruth,
    draw_candidate,
    draw_narrow,
    draw_problem,
    draw_renamed,
    problem_keys,
)
from kbverified.records.files import write, write_bytes
from kbverified.records.problem import ProblemRecord
from kbverified.roofline.columns import ceilings_path
from kbverified.static_view.reader import Reader

SEED = 20260716
GENERATORS = (*SKILL, NARROW, RENAMED)


@dataclass(frozen=True)
class Example:
    """Problems and candidates of one seed, or a part of them."""

    problems: dict[ProblemKey, ProblemTruth]
    candidates: dict[str, list[CandidateTruth]]
    """By generator."""


def draw(
    generators: Sequence[str] = GENERATORS,
    problems: Iterable[ProblemKey] | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Example:
    """The whole example, or a part: of these generators and problems, at most so many samples of each."""
    keys = list(problem_keys() if problems is None else problems)
    drawn = {key: draw_problem(key, seed) for key in keys}
    return Example(drawn, {name: _candidates(name, drawn, samples, seed) for name in generators})


def _candidates(
    generator: str, problems: dict[ProblemKey, ProblemTruth], samples: int, seed: int
) -> list[CandidateTruth]:
    most = {NARROW: NARROW_SAMPLES, RENAMED: RENAMED_SAMPLES}.get(generator, SAMPLES)
    one = {NARROW: draw_narrow, RENAMED: draw_renamed}.get(generator, draw_candidate)
    wanted = [p for p in problems.values() if generator != RENAMED or p.active]
    if generator == RENAMED:
        wanted = wanted[:: max(1, len(wanted) // RENAMED_PROBLEMS)][:RENAMED_PROBLEMS]
    keys = [
        (p, CandidateKey(generator, p.key.suite, p.key.problem, n)) for p in wanted for n in range(min(samples, most))
    ]
    return [one(key, problem, seed) for problem, key in keys]


def audits(example: Example) -> dict[ProblemKey, ProblemRecord]:
    return {key: audit(truth) for key, truth in example.problems.items()}


def table(
    candidates: Sequence[CandidateTruth],
    problems: dict[ProblemKey, ProblemTruth],
    audits: dict[ProblemKey, ProblemRecord],
    settings: AggregationSettings,
    root: Path,
) -> pd.DataFrame:
    """The kernel table of one generator, from records that are in no file; ``root`` has the ceilings."""
    rows = []
    with Reader() as reader:
        for truth in candidates:
            problem = problems[truth.key.problem_key]
            found = dict.fromkeys(EVERY_STAGE) | stages.stages(truth, problem)
            made = CandidateRecords(root, truth.key, stages.generation(truth), audits[problem.key], found)
            rows.append(row_of(made, settings, reader))
    return kernel_table.frame(rows)


def write_tables(example: Example, root: Path, settings: AggregationSettings, processes: int = 2) -> list[Path]:
    """Write the audits, the ceilings and every generator's table below ``root``/results; returns the tables' paths."""
    write_audits(example, root)
    with ProcessPoolExecutor(processes) as pool:
        jobs = [
            pool.submit(
                _write_table, candidates, example.problems, settings, root / f"results/kernels/{name}.parquet", root
            )
            for name, candidates in example.candidates.items()
        ]
        return [job.result() for job in jobs]


def _write_table(
    candidates: Sequence[CandidateTruth],
    problems: dict[ProblemKey, ProblemTruth],
    settings: AggregationSettings,
    path: Path,
    root: Path,
) -> Path:
    made = audits(Example(problems, {}))
    kernel_table.write_parquet(table(candidates, problems, made, settings, root), path)
    return path


def write_audits(example: Example, root: Path) -> None:
    for key, record in audits(example).items():
        write(key.record_path(root), record)
    write(ceilings_path(root, DEVICE.kind), ceilings())


def write_records(example: Example, root: Path) -> None:
    """Write everything as a run leaves it: problems, candidates, and every stage's record in a file of its own.

    In the order of a run, so that nothing is older than what it is made from: Snakemake leaves it as it is.
    """
    for truth in example.problems.values():
        write_bytes(truth.key.source_path(root), problem_source(truth))
    write_audits(example, root)
    for name in example.candidates:
        for candidate in example.candidates[name]:
            write_bytes(candidate.key.source_path(root), source_of(candidate))
            write(candidate.key.metadata_path(root), stages.generation(candidate))
            for stage, record in stages.stages(candidate, example.problems[candidate.key.problem_key]).items():
                write(candidate.key.record_path(stage, root), record)


def aggregate_records(example: Example, root: Path, settings: AggregationSettings) -> list[Path]:
    """Write every generator's table from the files of ``write_records``; returns the tables' paths."""
    paths = []
    for name, candidates in example.candidates.items():
        made = aggregate_generator(root, name, [candidate.key for candidate in candidates], settings)
        paths.append(root / f"results/kernels/{name}.parquet")
        kernel_table.write_parquet(made, paths[-1])
    return paths
