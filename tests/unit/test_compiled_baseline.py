"""The compiled baseline: when its answer is another one, how a failure is told, and what gets caches of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kbverified.correctness import compare_all
from kbverified.judge import compiled
from kbverified.judge.party import BaselineUnusable, InfrastructureFault, Settings
from kbverified.protocol import COMPILED_BASELINE_RMS_LIMIT
from kbverified.records.files import RecordError

SETTINGS = Settings(device="cpu", sandbox="none", dtype="fp32", timeout_s=1.0, build_root=Path("build"), threads=1)
PROBLEM = "class Model: ...\n"


def answers(change) -> str | None:
    reference = torch.linspace(-2.0, 3.0, 500)
    return compiled.why_another_answer(compare_all([change(reference.clone())], [reference]))


def test_rounding_is_no_other_answer() -> None:
    assert answers(lambda t: t) is None
    assert answers(lambda t: t.bfloat16().float()) is None
    assert answers(lambda t: t * (1 + 0.9 * COMPILED_BASELINE_RMS_LIMIT)) is None


def test_another_answer_is_told_by_how_much() -> None:
    why = answers(lambda t: t * (1 + 1.5 * COMPILED_BASELINE_RMS_LIMIT))
    assert why == "torch.compile changes the answer: off by 0.03 (relative rms) against the eager reference"
    assert "NaN or Inf" in str(answers(lambda t: t.index_fill(0, torch.tensor([3]), float("nan"))))


def test_a_failure_is_told_by_its_own_line() -> None:
    trace = "Traceback (most recent call last):\n  File x\nInductorError: InvalidCxxCompiler: none\n\nSet TORCH_LOGS\n"
    assert compiled._last_line(trace) == "InductorError: InvalidCxxCompiler: none"
    assert compiled._last_line("\n") == "it said nothing"


def test_problem_dtype_and_threads_have_caches_of_their_own() -> None:
    variants = [SETTINGS, replace(SETTINGS, dtype="bf16"), replace(SETTINGS, threads=2)]
    folders = [
        compiled.cache_folder(Path("build"), problem, compiled.environment_of(settings))
        for problem in ("a" * 64, "b" * 64)
        for settings in variants
    ]
    assert len(set(folders)) == 6
    # What only decides how long a stage may take does not compile anything anew.
    longer = compiled.environment_of(replace(SETTINGS, timeout_s=9.0, build_timeout_s=9.0, timing_budget_s=9.0))
    assert compiled.cache_folder(Path("build"), "a" * 64, longer) == folders[0]


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A problem whose caches are filled by writing a note; every filling is counted."""
    problem = tmp_path / "level1_1.py"
    problem.write_text(PROBLEM)
    settings = replace(SETTINGS, build_root=tmp_path / "build")
    filled: list[Path] = []

    def ready(**note) -> compiled.Compiled:
        def fill(problem: Path, audit: Path, settings: Settings, folder: Path) -> None:
            filled.append(folder)
            if note:
                full = {"problem_sha256": "a" * 64, "environment": {}, **note}
                compiled.note_path(folder).write_text(json.dumps(full))
            else:
                raise InfrastructureFault("no device")

        monkeypatch.setattr(compiled, "_fill_in_process", fill)
        return compiled.ready(problem, tmp_path / "audit.json", settings)

    return ready, filled


def test_the_first_to_need_it_fills_it_and_nobody_else(noted) -> None:
    ready, filled = noted
    first = ready(compile_s=12.5)
    assert (first.folder, first.compile_s) == (filled[0], 12.5)
    assert ready(reason="never asked again") == first and len(filled) == 1
    assert first.options()["threads"] == 1


def test_what_failed_once_is_not_tried_for_every_candidate(noted) -> None:
    ready, filled = noted
    for _ in range(2):
        with pytest.raises(BaselineUnusable, match=r"^torch.compile failed \(noted in baselines/../\w+\.json\)$"):
            ready(reason="torch.compile failed")
    assert len(filled) == 1


def test_a_fault_of_the_machine_leaves_no_note(noted) -> None:
    ready, filled = noted
    with pytest.raises(InfrastructureFault):
        ready()
    assert ready(compile_s=1.0).compile_s == 1.0 and len(filled) == 2


def test_a_broken_note_names_its_file(noted) -> None:
    ready, filled = noted
    ready(compile_s=1.0)
    compiled.note_path(filled[0]).write_text("{}")
    with pytest.raises(RecordError, match=r"baselines/.*\.json: field problem_sha256"):
        ready()
