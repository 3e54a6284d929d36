"""An audit that takes too long ends its process with the code of an infrastructure fault, and records nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kbverified.exit_codes import EXIT_INFRASTRUCTURE
from kbverified.judge.watchdog import Watchdog

ROOT = Path(__file__).parents[2]
ENDLESS = """
import threading
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        threading.Event().wait()  # as an operator that never returns: no signal's handler in Python would run

def get_inputs():
    return [torch.rand(4, 4)]

def get_init_inputs():
    return []
"""


def test_an_endless_audit_is_cut_off(tmp_path):
    problem = tmp_path / "level1_1.py"
    problem.write_text(ENDLESS)
    words = ["audit-problem", "--device", "cpu", "--problem", str(problem), "--out", str(tmp_path / "audit.json")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KBV_LEASE_DIR": str(tmp_path),
        "KBV_EVALUATOR": "off",
    }
    done = subprocess.run(
        [sys.executable, "-m", "kbverified", *words, "--timeout-s", "2"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == EXIT_INFRASTRUCTURE, done.stderr
    assert f"the audit of {problem} took longer than 2 s" in done.stderr
    assert "most recent call first" in done.stderr  # where it was
    assert not (tmp_path / "audit.json").exists()


def test_time_between_the_watched_parts_is_not_counted():
    watchdog = Watchdog(5.0, "this")
    with watchdog.watching():
        time.sleep(0.05)
    left_s = watchdog._left_s
    assert 4.0 < left_s < 4.96
    time.sleep(0.05)
    with watchdog.watching():
        pass
    assert left_s - watchdog._left_s < 0.04
