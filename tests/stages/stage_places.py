"""A problem, its candidates and their records, made for one question, and the real command on them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from chain import Bench, Item, bundled
from small_problem import problem_text

TIMEOUT_S = 8.0
AT_ONCE = 2
TIMED = ("pass", "unstable")
"""Verdicts of a timing stage in which nothing went wrong: that a busy CPU gives no time is no failure."""

DISHONEST = bundled("bundled-dishonest", ("any", "cpu"))
# In torch alone, in C++, and with weights and several operators.
HONEST_BUNDLED = [
    item
    for item in bundled("bundled-honest", ("any", "cpu"))
    if item.name in {f"bundled-honest/{tail}" for tail in ("level1_1/1", "level1_1/0", "level2_2/0")}
]

PROBLEM = problem_text("relu")


def bundled_records(bench: Bench, dishonest: list[Item]) -> dict[str, Any]:
    """Records of these, as far as the gate, and of the honest ones through every stage.

    Two at a time: while one holds the device, the other imports torch or compiles.
    """
    gates = {item.name: ("compile", "hidden-gate") for item in dishonest}
    return bench.chains([*HONEST_BUNDLED, *dishonest], gates, at_once=AT_ONCE)


HONEST = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def within(limit_s: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@dataclass
class Place:
    """A problem, its candidates and their records, made for one question."""

    bench: Bench
    folder: Path
    problem_text: str = PROBLEM

    def __post_init__(self) -> None:
        self.problem = self.folder / "problems" / "made" / "level1_1.py"
        self.problem.parent.mkdir(parents=True)
        self.problem.write_text(self.problem_text)
        self.records = self.folder / "results"
        self.audit = self.records / "audit.json"

    def item(self, text: str, sample: int = 0, generator: str = "made") -> Item:
        path = self.folder / "generations" / generator / "made" / "level1_1" / f"{sample}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return Item(path, self.problem)

    def words(self, stage: str, item: Item, **paths: Path) -> list[str]:
        """The command line of one stage; records lie in ``records`` by stage and sample."""
        name = f"{item.candidate.parents[2].name}-{item.candidate.stem}.json"
        at = {s: self.records / s / name for s in ("compile", "hidden-gate", stage)} | paths
        words = ["stage", stage, "--candidate", str(item.candidate), "--problem", str(self.problem)]
        words += ["--audit", str(self.audit), "--out", str(at[stage])]
        if stage != "compile":
            words += ["--compiled", str(at["compile"])]
        if stage not in ("compile", "hidden-gate"):
            words += ["--gate", str(at["hidden-gate"])]
        return words

    def make_audit(self, *options: str) -> dict[str, Any]:
        done = self.bench.call("audit-problem", "--problem", str(self.problem), "--out", str(self.audit), *options)
        assert done.returncode == 0, done.stderr
        return json.loads(self.audit.read_text())

    def stage(self, stage: str, item: Item, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one stage; options given here win over the bench's."""
        words = [sys.executable, "-m", "kbverified", *self.words(stage, item), *self.bench.options, *options]
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            env={**self.bench.environment, **environment},
            cwd=self.folder,
            check=False,
            timeout=180,
        )

    def record(self, stage: str, item: Item) -> dict[str, Any]:
        words = self.words(stage, item)
        return json.loads(Path(words[words.index("--out") + 1]).read_text())

    def has_record(self, stage: str, item: Item) -> bool:
        words = self.words(stage, item)
        out = Path(words[words.index("--out") + 1])
        return out.exists() or any(out.parent.glob(".*.tmp"))

    def gate(self, item: Item, *options: str, **environment: str) -> dict[str, Any]:
        """Compile and gate; the gate's record. Fails where no record was made."""
        for stage in ("compile", "hidden-gate"):
            done = self.stage(stage, item, *options, **environment)
            assert done.returncode == 0, f"{stage}: exit {done.returncode}: {done.stderr[-3000:]}"
        return self.record("hidden-gate", item)
