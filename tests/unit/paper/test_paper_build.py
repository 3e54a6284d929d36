"""Inputs from a results folder, and writing topics: every declared file, each from one topic alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import record_factory as make

from kbverified import leaderboard
from kbverified.aggregation import AggregationSettings, aggregate_generator, write_parquet
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.paper import build, style
from kbverified.paper.build import Topic
from kbverified.paper.finding import claim, conditions
from kbverified.paper.inputs import PaperInputs, load
from kbverified.paper.table import Column, Table

SETTINGS = AggregationSettings()
PROBLEMS = [ProblemKey("kb", name) for name in ("level1_2", "level1_10", "level2_1")]
SMALL = Topic("small", tables=("counts",), figures=("bars",))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two generators, ``z`` before ``a``; level2_1 is degenerate."""
    root = tmp_path_factory.mktemp("run")
    for key in PROBLEMS:
        make.write_problem(root, key, degenerate=key.level == 2)
    for generator in ("z", "a"):
        keys = [CandidateKey(generator, key.suite, key.problem, n) for key in PROBLEMS for n in (1, 0)]
        for key in keys:
            make.write_candidate(root, key)
        table = aggregate_generator(root, generator, keys, SETTINGS)
        write_parquet(table, root / f"results/kernels/{generator}.parquet")
    return root


@pytest.fixture(scope="module")
def inputs(results: Path) -> PaperInputs:
    return load(results, ["z", "a"], reversed(PROBLEMS), SETTINGS, (1e-3, 1e-4))


def small_module() -> ModuleType:
    def tables(inputs: PaperInputs) -> list[Table]:
        rows = tuple((name, len(inputs.rows[name])) for name in inputs.generators)
        return [
            Table("counts", "Candidates", "", (Column("generator", "generator"), Column("n", "n", kind="count")), rows)
        ]

    def figures(inputs: PaperInputs) -> dict[str, object]:
        figure, axes = style.figure()
        axes.bar(inputs.generators, [len(inputs.rows[name]) for name in inputs.generators])
        return {"bars": figure}

    def findings(inputs: PaperInputs) -> list[object]:
        entry = inputs.leaderboard.entry("z", "kb", None, "naive", "hidden")
        assert entry is not None
        said = conditions(inputs, arm="naive", test="hidden", dtype="fp32")
        return [claim("small", "the share of z", entry.correctness, 0.0, said, form="percent")]

    return SimpleNamespace(tables=tables, figures=figures, findings=findings)  # type: ignore[return-value]


def test_inputs_are_ordered_and_complete(inputs: PaperInputs) -> None:
    assert inputs.generators == ("z", "a")
    order = [(r.generator, r.problem, r.sample) for r in inputs.kernels.itertuples()]
    expected = [(g, p, n) for g in ("z", "a") for p in ("level1_2", "level1_10", "level2_1") for n in (0, 1)]
    assert order == expected
    assert list(inputs.problems) == PROBLEMS
    assert [key.problem for key in inputs.active] == ["level1_2", "level1_10"]
    assert inputs.dtypes == {"z": "fp32", "a": "fp32"}
    assert [row["sample"] for row in inputs.rows["a"]] == [0, 1, 0, 1, 0, 1]


def test_the_leaderboard_is_read_or_built_to_the_same(results: Path, inputs: PaperInputs, tmp_path: Path) -> None:
    path = leaderboard.write(inputs.leaderboard, tmp_path)[0]
    again = load(results, ["z", "a"], PROBLEMS, SETTINGS, (1e-3,), leaderboard_path=path)
    assert again.leaderboard == inputs.leaderboard
    with pytest.raises(ValueError, match=r"one of z, a, the tables are of a, z"):
        load(results, ["a", "z"], PROBLEMS, SETTINGS, (1e-3,), leaderboard_path=path)


def test_what_cannot_be_used_is_named(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kb/level3_1\.json: no audit"):
        load(results, ["z"], [*PROBLEMS, ProblemKey("kb", "level3_1")], SETTINGS, (1e-3,))
    for taus in ((), (1e-3, 1e-3), (0.0,)):
        with pytest.raises(ValueError, match="taus"):
            load(results, ["z"], PROBLEMS, SETTINGS, taus)
    published = tmp_path / "p.json"
    published.write_text(json.dumps({"overall": {}}))
    with pytest.raises(ValueError, match=r"p\.json: field source"):
        load(results, ["z"], PROBLEMS, SETTINGS, (1e-3,), published)


def test_a_topic_writes_every_file_that_it_declares(inputs: PaperInputs, tmp_path: Path) -> None:
    paths = build.write_topic(SMALL, inputs, tmp_path, small_module())
    there = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert there == sorted(str(p.relative_to(tmp_path)) for p in paths) == sorted(SMALL.paths())
    assert (tmp_path / "tables/counts.csv").read_text() == "generator,n\nz,6\na,6\n"
    text = build.write_findings(inputs, tmp_path, (SMALL,)).read_text()
    assert (
        "- The share of z is above 0.0 %: 100.0 % [15.8 %, 100.0 %], n 2. "  # Clopper-Pearson, 2 of 2: 0.025 ** (1 / 2)
        "(holds; naive arm, hidden test, tau 0.001, fp32, H200 (cuda), driver 580, torch 2.11.0, CUDA 13.0)\n"
    ) in text


@pytest.mark.parametrize(
    ("topic", "what"), [(Topic("small", ("counts",)), "figures"), (Topic("small", ("other",), ("bars",)), "tables")]
)
def test_other_files_than_declared_are_an_error(inputs: PaperInputs, tmp_path: Path, topic: Topic, what: str) -> None:
    with pytest.raises(ValueError, match=f"topic small makes the {what}"):
        build.write_topic(topic, inputs, tmp_path, small_module())


def test_every_topic_has_its_module_and_no_file_twice() -> None:
    paths = [path for topic in build.TOPICS for path in topic.paths()]
    assert len(set(paths)) == len(paths)
    for topic in build.TOPICS:
        module = build.module_of(topic)
        assert hasattr(module, "tables") == bool(topic.tables)
        assert hasattr(module, "figures") == bool(topic.figures)


def test_knowing_the_topics_costs_no_heavy_import_and_the_paper_no_torch() -> None:
    code = (
        "import sys, kbverified.paper.build as build; "
        "light = [m for m in ('pandas', 'matplotlib', 'pydantic') if m in sys.modules]; "
        "import kbverified.paper.inputs, kbverified.paper.style, kbverified.paper.assembly; "
        "[build.module_of(t) for t in build.TOPICS]; "
        "print(light, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "[] False\n"
