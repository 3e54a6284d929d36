"""Existing candidates in: run directories and JSON lines, with every kind of file a run leaves behind."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from kbverified import run_import
from kbverified.extraction import classify
from kbverified.file_plan import ImportRefused
from kbverified.keys import CandidateKey
from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.records.files import read
from kbverified.records.generation import Generation
from kbverified.run_import import RunImport, import_jsonl, import_run_directory

REAL_JSONL = Path(os.environ.get("KBV_TEST_JSONL", "not there"))
CODE = "class ModelNew: pass\n"


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def candidate(root: Path, problem: str = "level1_1", sample: int = 0) -> tuple[bytes, Generation]:
    key = CandidateKey("gen", "kb", problem, sample)
    data, generation = key.source_path(root).read_bytes(), read(key.metadata_path(root), Generation)
    assert generation.candidate_sha256 == hashlib.sha256(data).hexdigest()
    assert generation.origin == "import"
    return data, generation


def write_run(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def run_directory(folder: Path, root: Path, **options) -> RunImport:
    return import_run_directory(folder, "gen", "kb", root, **options)


def test_run_directory_nested_and_fenced(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run",
        {
            "level_1_problem_1_sample_0_kernel.py": CODE.replace("\n", "\r\n"),
            "level_1_problem_1_sample_12_kernel.py": f"Here:\n```python\n{CODE}```\n",
            "deep/er/level_2_problem_100_sample_0_kernel.py": CODE,
            "level_1_problem_1_sample_0_kernel.py.bak": CODE,
            "notes.py": CODE,
            "eval_results.json": "{}",
        },
    )
    report = run_directory(folder, tmp_path)
    assert (report.new, report.unchanged, report.without_code) == (3, 0, 0)
    assert any("1 other Python files were left out: notes.py" in w for w in report.warnings)
    assert candidate(tmp_path)[0] == CODE.replace("\n", "\r\n").encode()
    data, generation = candidate(tmp_path, sample=12)
    assert (data, generation.extraction) == (CODE.encode(), "fence")
    assert candidate(tmp_path, "level2_100")[1].source == "run/deep/er/level_2_problem_100_sample_0_kernel.py"


LATIN = "# caf\xe9\n".encode("latin-1") + CODE.encode()
ODD = {
    "empty": (b"", b"", "none", "no_code"),
    "None": (b"None", b"", "none", "no_code"),
    "refusal": (b"I am sorry, I cannot do that.", b"", "none", "no_code"),
    "Latin-1": (LATIN, LATIN, "verbatim", "unreadable_source"),
    "10 MB": (b"#" * (10 << 20), b"#" * (10 << 20), "verbatim", "unreadable_source"),
    "NUL": (CODE.encode() + b"\0", CODE.encode() + b"\0", "verbatim", "unreadable_source"),
    "cut off": (b"import torch\nx = '''", b"import torch\nx = '''", "verbatim", "syntax_error"),
    "fence cut off": (b"```python\nclass ModelNew:", b"class ModelNew:", "fence", "syntax_error"),
    "no model": (b"import torch\n", b"import torch\n", "verbatim", "no_model_new"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_candidates_that_fail(tmp_path: Path, name: str) -> None:
    given, kept, extraction, verdict = ODD[name]
    folder = write_run(tmp_path / "run", {"level_1_problem_1_sample_0_kernel.py": given})
    report = run_directory(folder, tmp_path)
    data, generation = candidate(tmp_path)
    assert (data == kept, generation.extraction) == (True, extraction)
    assert report.without_code == (extraction == "none")
    assert generation.detail or extraction != "none"
    found = classify(data)
    assert found is not None
    assert found.verdict == verdict
    assert CANDIDATE_SIZE_LIMIT_BYTES < 10 << 20


def test_duplicate_samples_are_named_unless_identical(tmp_path: Path) -> None:
    name = "level_1_problem_1_sample_0_kernel.py"
    folder = write_run(tmp_path / "run", {f"a/{name}": CODE, f"b/{name}": CODE})
    assert run_directory(folder, tmp_path).new == 1
    write_run(folder, {f"b/{name}": CODE + "# other\n", "level_1_problem_2_sample_0_kernel.py": CODE})
    before = tree(tmp_path / "generations")
    with pytest.raises(
        ImportRefused, match=rf"gen/kb/level1_1/0: two different sources.*run/a/{name} and run/b/{name}"
    ):
        run_directory(folder, tmp_path)
    assert tree(tmp_path / "generations") == before


def test_leading_zeros_are_the_same_sample(tmp_path: Path) -> None:
    files = {"level_1_problem_1_sample_0_kernel.py": CODE, "level_1_problem_01_sample_00_kernel.py": CODE + "#\n"}
    with pytest.raises(ImportRefused, match="two different sources"):
        run_directory(write_run(tmp_path / "run", files), tmp_path)


def test_an_empty_directory_says_what_was_looked_for(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"kernel.py": CODE})
    with pytest.raises(ImportRefused, match=r"no level_<L>_problem_<P>_sample_<S>_kernel\.py.*there are kernel\.py"):
        run_directory(folder, tmp_path)


def test_a_rerun_is_a_no_op_from_wherever(tmp_path: Path) -> None:
    files = {"level_1_problem_1_sample_0_kernel.py": CODE, "level_1_problem_2_sample_0_kernel.py": ""}
    run_directory(write_run(tmp_path / "run", files), tmp_path)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in (tmp_path / "generations").rglob("*")}
    report = run_directory(write_run(tmp_path / "copy", files), tmp_path)
    assert (report.new, report.unchanged, report.replaced, report.kept) == (0, 2, 0, 0)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in (tmp_path / "generations").rglob("*")} == before


@pytest.mark.parametrize("edited", [True, False])
def test_a_differing_candidate_is_never_replaced_silently(tmp_path: Path, edited: bool) -> None:
    first, second = "level_1_problem_1_sample_0_kernel.py", "level_1_problem_2_sample_0_kernel.py"
    folder = write_run(tmp_path / "run", {first: CODE})
    run_directory(folder, tmp_path)
    if edited:
        (tmp_path / "generations/gen/kb/level1_1/0.py").write_text(CODE + "# by hand\n")
    else:
        write_run(folder, {first: CODE + "# another run\n"})
    write_run(folder, {second: CODE})
    before = tree(tmp_path / "generations")
    with pytest.raises(ImportRefused, match=rf"1 candidates .*\({int(edited)} of them edited.*level1_1/0\.py.*--force"):
        run_directory(folder, tmp_path)
    assert tree(tmp_path / "generations") == before
    report = run_directory(folder, tmp_path, on_difference="keep")
    assert (report.new, report.kept, report.replaced) == (1, 1, 0)
    after = tree(tmp_path / "generations")
    assert {name: after[name] for name in before} == before
    report = run_directory(folder, tmp_path, on_difference="replace")
    assert (report.new, report.unchanged, report.replaced) == (0, 1, 1)
    assert candidate(tmp_path)[0] == (folder / first).read_bytes()


def test_lost_metadata_is_made_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"level_1_problem_1_sample_0_kernel.py": CODE})
    run_directory(folder, tmp_path)
    whole = tree(tmp_path / "generations")
    for content in (
        None,
        "{",
        whole["gen/kb/level1_1/0.json"].decode().replace('"candidate_sha256": "', '"candidate_sha256": "0'),
    ):
        path = tmp_path / "generations/gen/kb/level1_1/0.json"
        path.unlink() if content is None else path.write_text(content)
        assert run_directory(folder, tmp_path).unchanged == 1
        assert tree(tmp_path / "generations") == whole


def json_lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(task: int = 1, code: object = CODE, **more: object) -> dict[str, object]:
    return {"level_id": 1, "task_id": task, "custom_code": code, **more}


def test_jsonl(tmp_path: Path) -> None:
    absent = row(5)
    del absent["custom_code"]
    rows = [row(1), row(2, None), row(3, "None"), row(4, ""), absent, row(6, f"```py\n{CODE}```"), row(7, "\ud800")]
    report = import_jsonl(json_lines(tmp_path / "r.jsonl", rows), "gen", "kb", tmp_path)
    assert (report.new, report.without_code) == (7, 4)
    found = {n: candidate(tmp_path, f"level1_{n}") for n in range(1, 8)}
    assert [found[n][1].extraction for n in found] == ["verbatim", "none", "none", "none", "none", "fence", "verbatim"]
    assert [found[n][0] for n in (1, 2, 3, 4, 5, 6)] == [CODE.encode(), b"", b"", b"", b"", CODE.encode()]
    assert (found[2][1].detail, found[3][1].detail) == ("the answer is null", "the answer is 'None'")
    assert found[1][1].source == "r.jsonl: line 1, custom_code"
    verdict = classify(found[7][0])
    assert verdict is not None
    assert verdict.verdict == "unreadable_source"


def test_jsonl_samples_and_other_fields(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "r.jsonl", [row(sample_id=0, mine="x = 1\n"), row(sample_id=3, mine="x = 2\n")])
    assert import_jsonl(path, "gen", "kb", tmp_path, field="mine").new == 2
    assert candidate(tmp_path, sample=3)[0] == b"x = 2\n"
    with pytest.raises(ImportRefused, match=r"no line has a field 'yours'; there are custom_code, level_id, mine"):
        import_jsonl(path, "gen", "kb", tmp_path, field="yours")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (row(1, CODE + "#"), r"gen/kb/level1_1/0: two different sources.*line 1, custom_code and .*line 2"),
        (row(2, ["list"]), "line 2: field custom_code is not text"),
        (row(2, sample_id=None), "line 2: sample_id is not a whole number"),
        ({"custom_code": CODE}, "line 2: level_id is not a whole number"),
    ],
)
def test_jsonl_errors_write_nothing(tmp_path: Path, second: object, words: str) -> None:
    with pytest.raises(ImportRefused, match=words):
        import_jsonl(json_lines(tmp_path / "r.jsonl", [row(1), second]), "gen", "kb", tmp_path)
    assert not (tmp_path / "generations").exists()


def test_candidates_without_a_problem_are_told(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "r.jsonl", [row(1), row(2)])
    assert "import-problems --suite kb" in import_jsonl(path, "gen", "kb", tmp_path).warnings[0]
    write_run(tmp_path / "problems/kb", {"level1_1.py": ""})
    assert "has no level1_2;" in import_jsonl(path, "gen", "kb", tmp_path).warnings[0]


def command_line(*words: object) -> int:
    parser = argparse.ArgumentParser()
    run_import.add_parser(parser.add_subparsers())
    args = parser.parse_args(["import-runs", *map(str, words)])
    return int(args.run(args))


def test_command_line(tmp_path: Path, capsys) -> None:
    folder = write_run(tmp_path / "run", {"level_1_problem_1_sample_0_kernel.py": CODE})
    lines = json_lines(tmp_path / "r.jsonl", [row(1, CODE + "#\n"), row(2, None)])
    common = ["--suite", "kb", "--root", tmp_path, "--generator"]
    assert command_line("--from", folder, *common, "gen") == 0
    assert "gen/kb: 1 candidates new, 0 unchanged" in capsys.readouterr().out
    assert command_line("--from", lines, *common, "gen") == 2
    assert "--keep" in capsys.readouterr().err
    assert command_line("--from", lines, *common, "gen", "--keep") == 0
    assert "1 candidates new, 0 unchanged, 0 replaced, 1 kept though they differ; 1 of" in capsys.readouterr().out
    assert command_line("--from", lines, *common, "gen", "--force") == 0
    assert candidate(tmp_path)[0] == (CODE + "#\n").encode()
    assert command_line("--from", lines, *common, "other/../gen") == 2
    assert command_line("--from", tmp_path / "absent", *common, "gen") == 2
    assert "absent" in capsys.readouterr().err


@pytest.mark.skipif(not REAL_JSONL.is_file(), reason="KBV_TEST_JSONL does not name the published JSON lines")
def test_the_published_json_lines(tmp_path: Path) -> None:
    report = import_jsonl(REAL_JSONL, "gen", "kernelbench-v0", tmp_path)
    assert (report.new, report.without_code) == (125, 18)
    details = Counter(read(p, Generation).detail for p in (tmp_path / "generations").rglob("*.json"))
    assert details == {None: 107, "the answer is null": 10, "the answer is 'None'": 8}
