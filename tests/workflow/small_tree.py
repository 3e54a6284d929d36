"""A small copy of the project in which Snakemake really runs, on the CPU."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from small_problem import problem_text

PROJECT = Path(__file__).resolve().parents[2]

# Off by 2e-4 of the value: within tau 1e-3, outside 1e-5.
HONEST = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 1.0002
"""
BROKEN = "class ModelNew(:  # truncated\n"
NO_MODEL = "answer = 42\n"

CONFIG = """
selection:
  suites: [tiny]
  generators: all
generators_tsv: config/generators.tsv
device: cpu
"""
GENERATORS = "generator\torigin\ngood\timport\nbad\timport\n"

STAGES = ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")
AGGREGATES = {f"results/leaderboard.{ending}" for ending in ("json", "csv", "md", "html")}


def records_of(*tails: str, stages: tuple[str, ...] = STAGES) -> set[str]:
    return {f"results/{stage}/{tail}.json" for tail in tails for stage in stages}


def tables_of(*generators: str) -> set[str]:
    return AGGREGATES | {f"results/kernels/{generator}.parquet" for generator in generators}


@cache
def _evaluators() -> tempfile.TemporaryDirectory[str]:
    """For the sockets of this process's trees, one evaluator each. A socket's path has at most 107 characters."""
    return tempfile.TemporaryDirectory(prefix="kbv-", dir="/tmp")


@dataclass(frozen=True)
class Tree:
    """A copy of the project; every method runs or looks inside it."""

    path: Path

    def snakemake(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.environment(**environment), *arguments, check=check)

    def run(self, environment: dict[str, str], *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Like ``snakemake``, with this for its whole environment."""
        done = subprocess.run(
            self.command(*arguments), cwd=self.path, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"snakemake {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}")
        return done

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        # A lease folder of its own: these runs measure nothing, and need not wait for others on this machine. With the
        # evaluator, as config.yaml has it: nine of ten CPU seconds of a job here would be an import of torch.
        evaluator = {"KBV_EVALUATOR": "on", "KBV_EVALUATOR_DIR": _evaluators().name, "KBV_EVALUATOR_IDLE_S": "3"}
        return {**os.environ, "KBV_LEASE_DIR": str(self.path / "leases"), **evaluator, **more}

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs by rule that a run would do, without ``all``."""
        text = self.snakemake("--dry-run", *arguments).stdout
        table = re.search(r"^Job stats:\n.*?\n-[- ]*\n(.*?)^total", text, re.S | re.M)
        rows = [line.split() for line in table[1].splitlines() if line.strip()] if table else []
        if not rows:
            assert "Nothing to be done" in text, text
        return {rule: int(count) for rule, count in rows if rule != "all"}

    def written(self) -> dict[str, int]:
        """Modification time of every file under results, by path."""
        files = (file for file in (self.path / "results").rglob("*") if file.is_file())
        return {file.relative_to(self.path).as_posix(): file.stat().st_mtime_ns for file in files}

    def rewritten(self, *arguments: str) -> set[str]:
        """Run, and return the files under results that are new or were written again."""
        before = self.written()
        self.snakemake(*arguments)
        return {path for path, time in self.written().items() if before.get(path) != time}

    def read(self, path: str) -> dict[str, object]:
        return json.loads((self.path / path).read_text())

    def write(self, path: str, content: str | bytes) -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.path / path).read_text()
        assert old in text, f"{old!r} is not in {path}"
        self.write(path, text.replace(old, new))


def make_tree(path: Path) -> Tree:
    """The project's own code and workflow with a tiny suite: one honest candidate, two that are no code."""
    path.mkdir(parents=True)
    for name in ("Snakefile", "workflow", "profiles", "src"):
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, path / name)
    tree = Tree(path)
    # What is tested is what runs again, not how exact a time or a ceiling is.
    tree.replace("src/kbverified/protocol.py", "TIMING_ROUNDS_MIN = 10", "TIMING_ROUNDS_MIN = 2")
    tree.replace("src/kbverified/protocol.py", "TIMING_ROUNDS_MAX = 120", "TIMING_ROUNDS_MAX = 2")
    tree.replace("src/kbverified/protocol.py", "TIMING_BATCH_MAX = 16", "TIMING_BATCH_MAX = 8")
    tree.replace("src/kbverified/protocol.py", '"cpu": 128 << 20}', '"cpu": 1 << 20}')
    tree.replace("src/kbverified/protocol.py", '"cpu": (512, 1024)}', '"cpu": (64, 128)}')
    tree.replace("src/kbverified/devices/cpu.py", "_FLUSH_BYTES = 32 << 20", "_FLUSH_BYTES = 1 << 20")
    tree.write("config/config.yaml", CONFIG)
    tree.write("config/generators.tsv", GENERATORS)
    tree.write("problems/tiny/level1_1.py", problem_text("tanh"))
    tree.write("problems/tiny/level1_2.py", problem_text("sigmoid"))
    tree.write("generations/good/tiny/level1_1/0.py", HONEST)
    tree.write("generations/bad/tiny/level1_1/0.py", BROKEN)
    tree.write("generations/bad/tiny/level1_2/0.py", NO_MODEL)
    return tree
