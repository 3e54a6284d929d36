"""``snakemake paper``: what it makes, what reruns after which change, and the same bytes when it is made again.

A topic of the test's own stands for the paper's.
"""

from __future__ import annotations

import hashlib
import re

import pytest
from small_tree import Tree

TOPIC = '''
"""A topic of a test: verdicts of every candidate."""

from kbverified.paper import style
from kbverified.paper.table import Column, Table


def tables(inputs):
    rows = tuple((r["generator"], r["problem"], r["verdict_hidden"]) for g in inputs.generators for r in inputs.rows[g])
    columns = (Column("generator", "generator"), Column("problem", "problem"), Column("verdict", "verdict"))
    published = (inputs.published or {}).get("source"), dict(inputs.names), inputs.references
    note = f"taus {inputs.taus}; {published}"
    return [Table("own_verdicts", "Verdicts", note, columns, rows)]


def figures(inputs):
    figure, axes = style.figure()
    axes.bar(inputs.generators, [len(inputs.rows[name]) for name in inputs.generators])
    return {"own_counts": figure}
'''
OWN = {
    *(f"results/paper/tables/own_verdicts.{ending}" for ending in ("csv", "md", "tex")),
    *(f"results/paper/figures/own_counts.{ending}" for ending in ("pdf", "png")),
    "results/paper/findings/own.json",
}
PAPER = "{taus: [1.0e-2, 5.0e-4], published: published.json, names: {good: G}, references: [bad]}"
FINDINGS = "results/paper/findings.md"


def with_own_topic_only(tree: Tree) -> None:
    """The paper's own topics have tests of their own; here they would only take time."""
    tree.write("src/kbverified/paper/topics/own.py", TOPIC)
    build = tree.path / "src/kbverified/paper/build.py"
    only = 'TOPICS: tuple[Topic, ...] = (Topic("own", tables=("own_verdicts",), figures=("own_counts",)),)\n'
    text, n = re.subn(r"^TOPICS: .*?^\)\n", only, build.read_text(), flags=re.S | re.M)
    assert n == 1
    build.write_text(text)


def digests(tree: Tree) -> dict[str, str]:
    files = sorted(path for path in (tree.path / "results/paper").rglob("*") if path.is_file())
    return {path.relative_to(tree.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def built(finished: Tree) -> Tree:
    """A finished run whose paper is built."""
    with_own_topic_only(finished)
    finished.snakemake("paper")
    return finished


def test_the_paper_is_built_rebuilt_to_the_same_bytes_and_only_where_it_is_stale(built: Tree) -> None:
    first = digests(built)
    assert set(first) == OWN | {FINDINGS}
    assert built.planned("paper") == {}
    assert (built.path / "results/paper/tables/own_verdicts.csv").read_text() == (
        "generator,problem,verdict\ngood,level1_1,pass\nbad,level1_1,syntax_error\nbad,level1_2,no_model_new\n"
    )

    # A lost file: its topic alone. Snakemake deletes a job's other outputs first, so that they are made again too.
    (built.path / "results/paper/tables/own_verdicts.tex").unlink()
    assert built.planned("paper") == {"paper_own": 1, "paper_findings": 1, "paper": 1}
    # All of it, in other processes with another seed of their hashes.
    for path in first:
        (built.path / path).unlink(missing_ok=True)
    built.snakemake("paper", PYTHONHASHSEED="4711", SOURCE_DATE_EPOCH="86400", TZ="Asia/Kathmandu", LC_ALL="C")
    assert digests(built) == first

    # An edited topic: its own files.
    module = "src/kbverified/paper/topics/own.py"
    built.replace(module, '"Verdicts"', '"All verdicts"')
    assert built.planned("paper") == {"paper_own": 1, "paper_findings": 1, "paper": 1}
    # One table alone, and nothing that it does not need.
    assert built.rewritten("results/paper/tables/own_verdicts.md") == OWN

    # Settings: tolerances and published numbers reach every topic, and no stage and no table of the run.
    built.write("published.json", '{"source": "A paper, table 1"}')
    config = built.path / "config/config.yaml"
    config.write_text(config.read_text() + f"paper: {PAPER}\n")
    assert built.planned("paper") == {"paper_own": 1, "paper_findings": 1, "paper": 1}
    built.snakemake("results/paper/tables/own_verdicts.md")
    text = (built.path / "results/paper/tables/own_verdicts.md").read_text()
    assert "taus (0.01, 0.0005); ('A paper, table 1', {'good': 'G'}, ('bad',))" in text and "### All verdicts" in text


def test_a_name_that_is_no_generator_stops_the_run(fresh: Tree) -> None:
    config = fresh.path / "config/config.yaml"
    config.write_text(config.read_text() + "paper: {names: {goood: G}}\n")
    done = fresh.snakemake("--dry-run", check=False)
    assert done.returncode and "config/generators.tsv has no row for generator 'goood'; it has good, bad" in done.stdout
