"""Which modules enter which stage's digest, and what changes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified import keys, protocol, source_digest

PACKAGE = Path(source_digest.__file__).parent
MEASURING = tuple(protocol.STAGE_CONSTANTS)


def names(stage: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in source_digest.files(stage)}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that the digests are taken from."""
    copy = tmp_path / "kbverified"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(source_digest, "PACKAGE_ROOT", copy)
    forget()
    yield copy
    forget()


def forget() -> None:
    for cached in (source_digest.digest, source_digest._read):
        cached.cache_clear()


def digests() -> dict[str, str]:
    forget()
    return {stage: source_digest.digest(stage) for stage in source_digest.ROOTS}


def changed_by(path: Path, text: str) -> set[str]:
    """Stages whose digest changes when text is added to a file."""
    before = digests()
    path.write_text(path.read_text() + text)
    after = digests()
    return {stage for stage in before if before[stage] != after[stage]}


def test_every_measuring_stage_has_roots() -> None:
    assert set(source_digest.ROOTS) == {*MEASURING, *source_digest.INTERPRETING}


def test_an_unknown_stage_is_an_error() -> None:
    with pytest.raises(ValueError, match="'tuning' is none of"):
        source_digest.digest("tuning")


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        ("judge/timing.py", set(keys.TIME_STAGES)),
        ("judge/memory.py", {"memory"}),
        ("judge/audit.py", {"audit-problem"}),
        ("judge/build.py", {"compile"}),
        ("worker.py", set(keys.EVERY_STAGE)),
        ("bootstrap/launches.py", set(keys.EVERY_STAGE)),
        ("devices/cpu.py", set(MEASURING)),
        ("aggregation.py", {"aggregate", "leaderboard", "page", "paper"}),
        ("leaderboard/markdown.py", {"leaderboard", "page", "paper"}),
        ("page/details.py", {"page"}),
        ("paper/table.py", {"paper"}),
        # The shape of records reruns who interprets them, and of them those that read such a record.
        ("records/base.py", set(source_digest.INTERPRETING)),
        ("records/timing.py", {"aggregate", "leaderboard", "page", "paper"}),
        # Constants come in by value: tau must rerun no stage.
        ("protocol.py", set(source_digest.INTERPRETING)),
        ("config.py", set()),
        ("progress.py", set()),
        ("generators.py", set()),
    ],
)
def test_a_change_reaches_the_stages_that_depend_on_it(package: Path, module: str, stages: set[str]) -> None:
    assert changed_by(package / module, "\n_UNUSED = 1\n") == stages


def test_who_decides_on_labels_asks_nobody_again() -> None:
    assert "llm_judges/case.py" in names("llm-judge") and "llm_judges/decide.py" not in names("llm-judge")
    assert "llm_judges/decide.py" in names("llm-labels") and "llm_judges/judge.py" not in names("llm-labels")


def test_comments_docstrings_and_layout_change_nothing(package: Path) -> None:
    path = package / "judge" / "timing.py"
    before = digests()
    text = path.read_text()
    assert text.startswith('"""')
    path.write_text('"""Another' + text[3:].replace("\n\n\n", "\n\n\n\n# Why.\n"))
    assert digests() == before


def test_files_beside_a_package_count(package: Path) -> None:
    assert "compile" not in changed_by(package / "leaderboard" / "markdown.py", "\n_UNUSED = 1\n")
    (package / "compilation" / "header.h").write_text("#pragma once\n")
    assert changed_by(package / "compilation" / "header.h", "// more\n") >= {"compile"}


def test_a_root_that_is_gone_is_an_error(package: Path) -> None:
    (package / "judge" / "timing.py").unlink()
    forget()
    with pytest.raises(FileNotFoundError, match="correct ROOTS"):
        source_digest.digest("time-fp32")


# What a stage may load without depending on it: the command line, the data model, and what only names things.
NOT_SHAPING = {
    "__init__.py",
    "__main__.py",
    "cli.py",
    "exit_codes.py",
    "printable.py",
    "keys.py",
    "protocol.py",
    *(path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "records").glob("*.py")),
}
IMPORT = {
    "audit-problem": "kbverified.judge.audit, kbverified.devices, kbverified.precision, kbverified.lease",
    "compile": "kbverified.judge.build",
    "hidden-gate": "kbverified.judge.gate",
    "time-fp32": "kbverified.judge.timing",
    "memory": "kbverified.judge.memory",
}


@pytest.mark.parametrize("stage", IMPORT)
def test_what_a_stage_really_imports_enters_its_digest(stage: str) -> None:
    code = (
        f"import sys, kbverified.cli, kbverified.stages, {IMPORT[stage]}\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'kbverified'), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {Path(line).relative_to(PACKAGE).as_posix() for line in done.stdout.splitlines()}
    assert f"judge/{IMPORT[stage].split(',')[0].split('.')[-1]}.py" in loaded
    shaping = {name for name in loaded - NOT_SHAPING if not name.endswith("__init__.py")}
    assert shaping <= names(stage)
