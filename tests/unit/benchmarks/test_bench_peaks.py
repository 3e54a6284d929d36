"""Processes below a command: who is who, and how large they got."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peaks

ROOT = Path(__file__).resolve().parents[3]
HOLD = "b = bytearray(80 << 20); import time; time.sleep(1.2)"


def stat(pid: int, parent: int) -> peaks.Stat:
    return peaks.Stat(pid, parent, "1", "x", 0.0, 0)


def test_a_name_with_spaces_and_parentheses_is_no_trouble() -> None:
    fields = ["S", "7", *["0"] * 9, "250", "50", *["0"] * 6, "999", "4096", "3", *["0"] * 10]
    found = peaks.parse_stat(f"42 (a) b (c) {' '.join(fields)}")
    assert (found.pid, found.parent, found.comm, found.start) == (42, 7, "a) b (c", "999")
    assert found.rss_bytes == 3 * peaks._PAGE_BYTES and found.cpu_s == 300 / peaks._TICKS


def test_descendants_parents_first() -> None:
    processes = {p.pid: p for p in (stat(9, 5), stat(5, 2), stat(2, 1), stat(3, 1), stat(6, 3))}
    assert [p.pid for p in peaks.below(2, processes)] == [2, 5, 9]
    assert peaks.below(77, processes) == []


@pytest.mark.parametrize(
    ("words", "environ", "parent", "role"),
    [
        ("/v/python -m kbverified stage time-fp32 --candidate x", [], "snakemake", "judge time-fp32"),
        ("/v/python -m kbverified audit-problem --problem x", [], "snakemake", "judge audit-problem"),
        ("/v/python -m kbverified device-run --list l", [], "", "kbverified device-run"),
        ("/v/python -I -S /s/kbverified/sandbox/launcher.py", [], "judge memory", "launcher memory"),
        ("/v/python -P -m kbverified.worker", ["KBV_SEALED_CACHE=/b"], "launcher memory", "candidate memory"),
        ("/v/python -P -m kbverified.worker", ["PATH=/"], "launcher memory", "baseline memory"),
        ("/v/python -P -m kbverified.worker", [], "launcher hidden-gate", "candidate hidden-gate"),
        ("/v/python -m snakemake --cores 2", [], "kbverified device-run", "snakemake"),
        ("/v/python /v/bin/snakemake --cores 2", [], "", "snakemake"),
        ("/usr/lib/gcc/cc1plus -quiet", [], "candidate compile", "compiler cc1plus"),
        ("/usr/local/cuda/bin/nvcc -c x.cu", [], "candidate compile", "compiler nvcc"),
        ("/v/python -P -m kbverified.evaluator.server 1", [], "", "evaluator"),
        ("/v/python -P -m kbverified.evaluator.server 1", [], "evaluator", "judge or launcher of an evaluator"),
        ("bash -c true", [], "", "other"),
    ],
)
def test_roles(words: str, environ: list[str], parent: str, role: str) -> None:
    name = words.split()[0].rpartition("/")[2]
    assert peaks.role_of(words.split(), environ, parent, name) == role


def test_cpu_seconds_of_a_stage_are_those_of_all_its_processes_per_judge() -> None:
    seen = [peaks.Process(role, cpu_s=s) for role, s in (("judge memory", 2.0), ("judge memory", 4.0))]
    seen += [peaks.Process(role, cpu_s=s) for role, s in (("candidate memory", 3.0), ("snakemake", 50.0))]
    seen += [peaks.Process("candidate hidden-gate", cpu_s=1.0)]
    assert peaks.cpu_by_stage(seen) == {"memory": 4.5}


def test_an_evaluators_cpu_seconds_are_shared_among_the_judges() -> None:
    roles = ("judge memory", 0.2), ("judge hidden-gate", 0.1), ("evaluator", 2.0), ("worker of an evaluator", 1.0)
    seen = [peaks.Process(role, cpu_s=s) for role, s in (*roles, ("judge or launcher of an evaluator", 1.0))]
    assert peaks.cpu_by_stage(seen) == {"memory": pytest.approx(2.2), "hidden-gate": pytest.approx(2.1)}


def watch(out: Path, code: str) -> tuple[int, dict[str, Any]]:
    """peaks as a process of its own: it takes in the orphans of whatever it starts."""
    command = [sys.executable, "-m", "benchmarks.peaks", "--json", str(out), "--every-s", "0.1", "--"]
    done = subprocess.run([*command, sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(out.read_text())


def test_a_real_command_its_child_and_its_exit_code(tmp_path: Path) -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}]); sys.exit(5)"
    code, found = watch(tmp_path / "peaks.json", parent)
    [python] = [role for role in found["roles"] if role["role"] == "python, other"]
    assert code == 5 and found["wall_s"] >= 1.2 and found["most_processes"] >= 2
    assert python["rss_mib"]["n"] == 2 and python["rss_mib"]["largest"] >= 80
    assert python["pss_mib"]["largest"] >= 80 and found["together_bytes"] >= 80 << 20


def test_an_orphan_of_the_command_is_seen(tmp_path: Path) -> None:
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {HOLD!r}], start_new_session=True)"
    waiting = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {parent!r}]); time.sleep(1)"
    code, found = watch(tmp_path / "peaks.json", waiting)
    [python] = [role for role in found["roles"] if role["role"] == "python, other"]
    assert code == 0 and python["rss_mib"]["largest"] >= 80
