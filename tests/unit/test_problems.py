"""Reference modules: loaded, checked without being run, listed in a manifest. No torch in here."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from kbverified import problems
from kbverified.problems import ManifestError, ManifestRow, ProblemError

GOOD = """\
from dataclasses import dataclass

@dataclass
class Model:
    size: int

    def __call__(self, x):
        return self.size * x

def get_inputs():
    return [2]

def get_init_inputs():
    return [3]
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "level1_1.py"
    path.write_text(GOOD)
    return path


def test_load(problem: Path) -> None:
    first, second = problems.load(problem), problems.load(problem)
    assert first.Model(*first.get_init_inputs())(*first.get_inputs()) == 6
    assert first.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert first.module.__name__ != second.module.__name__
    assert sys.modules[first.module.__name__] is first.module


def test_load_accepts_a_byte_order_mark_and_other_line_ends(problem: Path) -> None:
    problem.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert problems.load(problem).get_inputs() == [2]
    problems.static_check(problem)


@pytest.mark.parametrize("check", [problems.load, problems.static_check])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (GOOD.replace("class Model:", "class Other:").encode(), "no `Model`"),
        (GOOD.replace("def get_inputs", "def get").encode(), "no `get_inputs`"),
        (GOOD.replace("def get_init_inputs", "def get").encode(), "no `get_init_inputs`"),
        (b"", "no `Model`, `get_inputs`, `get_init_inputs`"),
        (GOOD.replace("return [2]", "return [2").encode(), "level1_1.py:11: syntax error"),
        (GOOD.encode() + "# caf\xe9".encode("latin-1"), f"not UTF-8 at byte {len(GOOD) + 5}"),
        (GOOD.encode() + b"\0", "null bytes"),
    ],
)
def test_unusable_problems_are_named(problem: Path, check, source: bytes, words: str) -> None:
    problem.write_bytes(source)
    with pytest.raises(ProblemError) as caught:
        check(problem)
    assert str(problem) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("check", [problems.load, problems.static_check])
def test_a_missing_file_is_named(tmp_path: Path, check) -> None:
    with pytest.raises(ProblemError, match=r"absent\.py: cannot be read: No such file"):
        check(tmp_path / "absent.py")


@pytest.mark.parametrize("line", ["raise ArithmeticError('too bad')", "import no_such_package", "exit(3)"])
def test_a_problem_that_raises_names_file_line_and_error(problem: Path, line: str) -> None:
    before = set(sys.modules)
    problem.write_text(GOOD + line + "\n")
    problems.static_check(problem)
    with pytest.raises(ProblemError, match=r"level1_1\.py:15: raised (ArithmeticError|ModuleNotFoundError|SystemExit)"):
        problems.load(problem)
    assert not {name for name in set(sys.modules) - before if name.startswith("kbverified_problem")}


def test_static_check_runs_nothing(problem: Path, tmp_path: Path) -> None:
    problem.write_text(GOOD + f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    problems.static_check(problem)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "source",
    [
        "from other import Model, get_inputs, get_init_inputs\n",
        "from other import *\n",
        "if True:\n    from other import Model\nelse:\n    Model = None\nget_inputs = get_init_inputs = lambda: []\n",
    ],
)
def test_static_check_sees_every_way_to_bind(problem: Path, source: str) -> None:
    problem.write_text(source)
    problems.static_check(problem)


def test_static_check_ignores_names_inside_functions(problem: Path) -> None:
    problem.write_text("def f():\n" + "".join(f"    {line}\n" for line in GOOD.splitlines()))
    with pytest.raises(ProblemError, match="no `Model`"):
        problems.static_check(problem)


def row(problem: str = "level1_19", **changes: object) -> ManifestRow:
    values = {"name": "ReLU, plain", "level": 1, "sha256": "0" * 64, "source": 'a "quoted" place'}
    return ManifestRow.model_validate({"problem": problem, **values, **changes})


def test_manifest_both_ways(tmp_path: Path) -> None:
    path = problems.manifest_path(tmp_path, "mine")
    rows = [row("level2_1", level=2), row("level1_19"), row("level1_3", name="é")]
    path.parent.mkdir(parents=True)
    path.write_text(problems.manifest_text(rows), encoding="utf-8")
    assert problems.read_manifest(path) == {r.problem: r for r in rows}
    assert list(problems.read_manifest(path)) == ["level1_3", "level1_19", "level2_1"]
    assert path == tmp_path / "problems/mine/manifest.csv"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("level1_x,n,1,{sha},s", "column problem: .*'level1_x'"),
        ("level1_1,n,one,{sha},s", "column level: .*'one'"),
        ("level1_1,n,2,{sha},s", "column level: .*'2'"),
        ("level1_1,,1,{sha},s", "column name: .*''"),
        ("level1_1,n,1,abc,s", "column sha256: .*'abc'"),
        ("level1_1,n,1,{sha}", "4 cells, expected 5"),
        ("level1_2,n,1,{sha},s", "column problem: 'level1_2' is listed twice"),
    ],
)
def test_manifest_errors_name_file_row_column_value(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "manifest.csv"
    sha = "0" * 64
    path.write_text(f"problem,name,level,sha256,source\nlevel1_2,n,1,{sha},s\n{line.format(sha=sha)}\n")
    with pytest.raises(ManifestError, match=rf"manifest\.csv: row 3: {words}"):
        problems.read_manifest(path)


def test_manifest_header_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "manifest.csv"
    path.write_text("problem,name\n")
    with pytest.raises(ManifestError, match=r"row 1: columns are 'problem,name'"):
        problems.read_manifest(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ManifestError, match="not UTF-8 at byte 0"):
        problems.read_manifest(path)
