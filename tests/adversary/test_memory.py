"""The forward whose memory is measured has to be a forward: two that need none, and their honest twin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_problem

ROOT = Path(__file__).parents[2]
CANDIDATE = """
import torch
KEPT = []
class ModelNew(torch.nn.Module):
    def forward(self, x):
        KEPT.append(torch.relu(x))
        return {answer}
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Run the audit once, then the memory stage by itself: what the gate would stop has to be seen here too."""
    tree = tmp_path_factory.mktemp("tree")
    problem = tree / "problems" / "own" / "level1_1.py"
    problem.parent.mkdir(parents=True)
    problem.write_text(small_problem.problem_text("relu"))
    problem.chmod(0o644)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KBV_LEASE_DIR": str(tree / "leases")}

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "kbverified", *words, "--problem", problem, "--device", "cpu"],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    command("audit-problem", "--out", "audit.json")

    def run(answer):
        candidate = tree / "candidate.py"
        candidate.write_text(CANDIDATE.format(answer=answer))
        candidate.chmod(0o644)
        command("stage", "memory", "--candidate", candidate, "--audit", "audit.json", "--out", "memory.json")
        return json.loads((tree / "memory.json").read_text())["verdict"]

    return run


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("KEPT[-1]", "pass"),
        ("KEPT[0]", "wrong_value"),  # right for the first inputs, and kept since
        ("KEPT[0] if len(KEPT) == 1 else None", "wrong_type"),
    ],
)
def test_the_measured_forward_is_verified(stage, answer, verdict):
    assert stage(answer) == verdict
