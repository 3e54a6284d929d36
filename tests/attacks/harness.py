"""Runs one attack, the attack without its defence, and its twin through the real command."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from attack import HERE, Attack
from chain import ROOT, Bench

MATMUL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)

def get_inputs():
    return [torch.randn({n}, {n}), torch.randn({n}, {n})]

def get_init_inputs():
    return []
"""
ROWS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n, n) / n)

    def forward(self, x):
        return nn.functional.linear(x, self.weight)

def get_inputs():
    return [torch.randn(1, {n})]

def get_init_inputs():
    return [{n}]
"""
CACHED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=-1)

def get_inputs():
    return [torch.rand(4 * {n}, {n})]

def get_init_inputs():
    return []
"""
PROBLEMS = {"matmul": MATMUL, "rows": ROWS, "cached": CACHED}
"""matmul: bound by arithmetic, so that no two launches are cheaper together. rows: one row times a large matrix,
bound by reading the matrix, so that a launch for thirty rows costs about as much as one for one. cached: bound by
reading an input that fits the L2."""

SIZES = {
    "cpu": {"matmul": 1024, "rows": 5120, "cached": 1024},
    "cuda": {"matmul": 4096, "rows": 19456, "cached": 1024},
}
"""Sides of the matrices, so that a launch lies above where the judge's bound is enforced: some 25 ms on one core, and
on an H200 2 to 3 ms by its fp32 peak and 0.3 to 0.4 ms by its bandwidth."""


KINDS = ("attack", "without its defence", "twin")


@dataclass
class Range:
    """A folder with audited problems, in which attacks run on one device."""

    bench: Bench
    device: str
    audits: dict[str, Path] = field(default_factory=dict)

    def problem(self, name: str) -> Path:
        path = self.bench.out / "problems" / "attacks" / f"level1_{1 + list(PROBLEMS).index(name)}.py"
        if name not in self.audits:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PROBLEMS[name].format(n=SIZES[self.device][name]))
            self.audits[name] = self.bench.audit(path)
        return path

    def stage(self, stage: str, candidate: Path, problem: str, gate: Path | None = None, without: str = "") -> Path:
        """One stage of one candidate, with defences switched off or none; path of its record."""
        source = self.problem(problem)
        out = self.bench.out / stage / f"{candidate.parent.name}-{candidate.stem}{without and '-without'}.json"
        words = ["stage", stage, "--candidate", str(candidate), "--problem", str(source)]
        words += ["--audit", str(self.audits[problem]), "--out", str(out), *self.bench.options]
        words += ["--gate", str(gate)] if gate else []
        words += ["--timing-budget-s", "0.5"]  # ten rounds tell a multiple from one
        start = [str(HERE / "without.py"), without] if without else ["-m", "kbverified"]
        done = subprocess.run(
            [sys.executable, *start, *words],
            capture_output=True,
            text=True,
            env=self.bench.environment,
            cwd=ROOT,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{candidate.name} {stage}: exit {done.returncode}: {done.stderr[-3000:]}"
        return out

    def timed(self, candidate: Path, problem: str, without: str = "") -> dict[str, Any]:
        """Gate, which every one of them passes, then time-fp32; the timing record."""
        gate = self.bench.out / "hidden-gate" / f"{candidate.parent.name}-{candidate.stem}.json"
        if not gate.exists():
            self.stage("hidden-gate", candidate, problem)
        found = json.loads(gate.read_text())
        assert found["verdict"] == "pass", f"the gate was to let it through: {json.dumps(found)[-2000:]}"
        return json.loads(self.stage("time-fp32", candidate, problem, gate, without).read_text())


def speedup(record: dict[str, Any]) -> float:
    """Baseline's over candidate's median, of a record with rounds."""
    baseline, candidate = (
        statistics.median(t for r in record["rounds"] for t in r[side]) for side in ("baseline_ms", "candidate_ms")
    )
    return baseline / candidate


def told(record: dict[str, Any]) -> str:
    """What a failed assertion shows."""
    ratio = f"{speedup(record):.2f}x" if record["rounds"] else "no rounds"
    return f"{record['verdict']}, {ratio}: {record['detail']}; {record['output_tail'][-1000:]}"


def run(where: Range, attack: Attack, kind: str) -> dict[str, Any]:
    """The timing record of one of KINDS."""
    if kind == "twin":
        return where.timed(attack.twin, attack.problem)
    return where.timed(attack.path, attack.problem, without=attack.switch if kind == "without its defence" else "")


def check(attack: Attack, kind: str, record: dict[str, Any]) -> None:
    """Caught: its named verdict, or a pass with a time of its own. Without its defence: a pass that is paid for.

    Its twin: a pass, at about the reference's speed.
    """
    if kind == "attack" and attack.verdict != "true_time":
        assert record["verdict"] == attack.verdict, told(record)
        return
    assert record["verdict"] == "pass", told(record)
    escaped = speedup(record) > attack.escapes
    assert escaped == (kind == "without its defence"), told(record)
