"""The workflow's own form: Snakemake's lint, the formatters, and what every rule file has."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_tree import PROJECT

RULE_FILES = sorted((PROJECT / "workflow" / "rules").glob("*.smk"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=PROJECT, capture_output=True, text=True, check=False)


def lint_script():  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location("snakemake_lint", PROJECT / ".ci" / "snakemake_lint.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_snakemake_lint_finds_nothing_but_the_one_on_purpose() -> None:
    done = run("snakemake", "--lint")
    assert lint_script().unexpected_lints(done.stderr + done.stdout) == []


def test_the_lint_script_reports_what_is_unexpected() -> None:
    report = "Lints for rule x (line 1, y):\n    * No log directive defined:\n      text\n"
    assert lint_script().unexpected_lints(report) == ["rule x (line 1, y): No log directive defined"]
    with pytest.raises(ValueError, match="NameError"):
        lint_script().unexpected_lints("NameError in file Snakefile")


def test_the_workflow_is_formatted() -> None:
    done = run("snakefmt", "-l", "120", "--check", "Snakefile", "workflow")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_a_rule_file_opens_with_its_purpose_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    head = re.match(r'"""\n(.+?)\n"""', text, re.S)
    assert head and "REQUIRED INPUTS:" in head[1] and "OUTPUTS:" in head[1]
    assert len(text.splitlines()) <= 200


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_every_rule_has_a_log_a_benchmark_and_named_files(path: Path) -> None:
    for rule in re.split(r"^rule ", path.read_text(), flags=re.M)[1:]:
        assert "    log:\n" in rule and "    benchmark:\n" in rule and "    resources:\n" in rule
        for part in ("input", "output") if "REQUIRED INPUTS: none" not in path.read_text() else ("output",):
            block = re.search(rf"    {part}:\n(.*?)\n    \w", rule, re.S)
            assert block and all("=" in line for line in block[1].splitlines() if line.startswith(" " * 8 + '"'))


@pytest.mark.parametrize("name", ["default", "slurm"])
def test_every_entry_of_a_profile_has_a_comment_above(name: str) -> None:
    path = PROJECT / "profiles" / name / "config.yaml"
    lines = path.read_text().splitlines()
    entries = [i for i, line in enumerate(lines) if re.match(r"[a-z-]+:", line)]
    assert len(entries) == len(yaml.safe_load(path.read_text()))
    for start, end in zip([-1, *entries], entries):
        between = lines[start + 1 : end]
        assert any(line.startswith("#") for line in between) or lines[end - 1].strip(), f"{path}:{end + 1}"
