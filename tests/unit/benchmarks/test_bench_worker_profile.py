"""A reference that profiles its worker: right as ever, and the profile is printed from the eighth launch on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import worker_profile

LAUNCHES = """
{source}
import torch
problem = get_init_inputs()
model = ModelNew(*problem)
for n in range(9):
    print("launch", n + 1)
    assert torch.equal(model(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))
"""
PROBLEM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_init_inputs():
    return []
"""


def test_it_prints_where_the_time_went(tmp_path: Path, capsys) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    assert worker_profile.main([str(tmp_path / "problem.py")]) == 0
    ran = [sys.executable, "-c", LAUNCHES.format(source=capsys.readouterr().out)]
    said = subprocess.run(ran, capture_output=True, text=True, check=True).stdout
    assert said.index("launch 8") < said.index("after 8 launches") < said.index("torch.relu") < said.index("launch 9")


def test_what_is_no_problem_is_said(tmp_path: Path, capsys) -> None:
    assert worker_profile.main([str(tmp_path / "none.py")]) == 2
    assert "none.py" in capsys.readouterr().err
