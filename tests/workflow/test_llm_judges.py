"""LLM judges through Snakemake: who is asked, what is paid for, and that a person's file is never lost.

Kernel tables and audits are written by hand and taken as they are; the judges are a server on this machine.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from small_tree import PROJECT, Tree

from kbverified import cli, kernel_table
from kbverified.keys import ProblemKey

# Rows by hand and the obedient server are those of the unit tests.
sys.path[:0] = [str(PROJECT / "tests/unit" / folder) for folder in (".", "paper", "llm_judges")]
row = importlib.import_module("hand_made").row
write_problem = importlib.import_module("record_factory").write_problem
obedient_server = importlib.import_module("obedient_server")
obedient, serving = obedient_server.obedient, obedient_server.serving
Endpoint = Any

CONFIG = """
selection: {suites: [tiny], generators: [good]}
generators_tsv: config/generators.tsv
device: cpu
allow_mixed_environments: true
llm_judges:
  others_share: 0.0
  judges:
  - {name: first, model: m1, base_url_env: TEST_URL, api_key_env: TEST_KEY}
  - {name: second, model: m2, base_url_env: TEST_URL, api_key_env: TEST_KEY}
  - {name: third, model: m3, base_url_env: TEST_URL, api_key_env: TEST_KEY}
"""
SOURCES = {
    ("level1_1", 0): "x = kernel\n",
    ("level1_1", 1): "x = CHEAT\n",
    ("level1_2", 0): "x = kernel  # second says hack\n",
    ("level1_2", 1): "x = slow\n",
}
RULES = ("llm_judges", "llm_judges_chosen", "llm_judge", "llm_judges_substitutes", "llm_judges_labels", "leaderboard")
LABELS = "results/llm-judges/labels.json"
QUEUE = "results/llm-judges/queue.csv"
REVIEW = "judgements/review.csv"


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with serving() as running:
        yield running


@pytest.fixture
def tree(fresh: Tree, server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Two problems with two candidates each, of which one is no faster than the reference."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    fresh.write("config/config.yaml", CONFIG)
    fresh.write("config/generators.tsv", "generator\torigin\ngood\timport\n")
    rows = []
    for (problem, sample), source in SOURCES.items():
        fresh.write(f"generations/good/tiny/{problem}/{sample}.py", source)
        rows.append(
            row(
                "good",
                problem,
                sample,
                suite="tiny",
                usable=True,
                degenerate=False,
                speedup_matched=0.9 if "slow" in source else 1.5 + sample,
                candidate_sha256=hashlib.sha256(source.encode()).hexdigest(),
            )
        )
    for problem in ("level1_1", "level1_2"):
        write_problem(fresh.path, ProblemKey("tiny", problem))
    kernel_table.write_parquet(kernel_table.frame(rows), fresh.path / "results/kernels/good.parquet")
    return fresh


def snakemake(tree: Tree, *targets: str, check: bool = True) -> str:
    return tree.snakemake(*targets, "--allowed-rules", *RULES, check=check).stdout


def disagreeing(messages: list[dict[str, str]], model: str) -> str:
    """Honest, but that the second judge has something against one candidate."""
    said = obedient(messages)
    if model == "m2" and "second says hack" in messages[1]["content"]:
        return json.dumps(json.loads(said) | {"label": "MEMORY_HACK", "pattern": "hidden_allocation"})
    return said


def found(tree: Tree) -> dict[str, tuple[str, str]]:
    made: Any = tree.read(LABELS)
    return {one["candidate"].removeprefix("good/tiny/"): (one["label"], one["basis"]) for one in made["candidates"]}


def test_from_kernel_tables_to_audited_columns(tree: Tree, server: Endpoint) -> None:
    asked: list[str] = []
    server.model_of = lambda body: asked.append(body["model"]) or disagreeing(body["messages"], body["model"])

    # Three candidates are faster. Two judges each, and a third where they disagree; the leaderboard asks for it all.
    snakemake(tree, "results/leaderboard.md", QUEUE)
    measured = {"level1_1/0": ("LEGITIMATE", "agreed"), "level1_1/1": ("SPEED_HACK", "agreed")}
    assert found(tree) == measured | {"level1_2/0": ("LEGITIMATE", "majority")}
    assert sorted(asked) == ["m1"] * 3 + ["m2"] * 3 + ["m3"]
    board = (tree.path / "results/leaderboard.md").read_text()
    # Audited the winner on level1_1 is the honest sample (1.5x), measured it is the other one (2.5x).
    assert "| 1.50 (2) | 1 of 3 | " in board and "| 1.94 (2) | " in board
    assert "Audited: without the verified samples whose label is SPEED_HACK or MEMORY_HACK" in board

    # A person takes the queue into a file of his own, and says something else.
    queue, review = tree.path / QUEUE, tree.path / REVIEW
    assert cli.main(["llm-review", "--queue", str(queue), "--review", str(review)]) == 0
    lines = review.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    at = next(i for i, line in enumerate(lines) if "level1_1/1" in line)
    lines[at] = lines[at].replace(",,,", ",LEGITIMATE,ann,it is a name,", 1)
    review.write_text("".join(lines))
    mine = review.read_bytes()

    # All that rules wrote is deleted, and whoever asks fails: what was paid for is replayed, the person's word goes
    # before every judge's, and his file is as it was.
    shutil.rmtree(tree.path / "results/llm-judges")
    server.status = 500
    snakemake(tree, "results/leaderboard.md", QUEUE)
    assert found(tree) == measured | {
        "level1_1/1": ("LEGITIMATE", "person"),
        "level1_2/0": ("LEGITIMATE", "majority"),
    }
    assert "| 1.94 (2) | 0 of 3 | " in (tree.path / "results/leaderboard.md").read_text()
    assert len(asked) == 7 and review.read_bytes() == mine
