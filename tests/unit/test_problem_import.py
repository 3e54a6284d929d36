"""Problem suites in: small made-up checkouts, parquet files and JSON lines; and the real JSON lines where they lie."""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from kbverified import file_plan, problem_import, problems
from kbverified.file_plan import ImportRefused
from kbverified.keys import ProblemKey
from kbverified.problem_import import import_checkout, import_jsonl, import_parquet

REAL_JSONL = Path(os.environ.get("KBV_TEST_JSONL", "not there"))


def source(number: int = 1) -> str:
    return f"class Model: pass\ndef get_inputs(): return [{number}]\ndef get_init_inputs(): return []\n"


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def agreed(root: Path, suite: str) -> list[str]:
    """The manifest's problems in its order, if the files beside it are exactly these, byte for byte."""
    rows = problems.read_manifest(problems.manifest_path(root, suite))
    lying = {path.stem: path for path in (root / "problems" / suite).glob("*.py")}
    assert {name: row.sha256 for name, row in rows.items()} == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in lying.items()
    }
    return list(rows)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "Bench"
    for name, number in {
        "level1/19_ReLU": 19,
        "level1/2_Two_": 2,
        "level2/1_A": 1,
        "level3/1_B": 1,
        "level4/1_C": 1,
    }.items():
        path = folder / "KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(number))
    # Line ends and a missing last one stay as they are.
    (folder / "KernelBench/level2/1_A.py").write_bytes(source(1).replace("\n", "\r\n").encode().rstrip())
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("below", ["", "KernelBench"])
def test_checkout(checkout: Path, tmp_path: Path, below: str) -> None:
    report = import_checkout(checkout / below, "kb", tmp_path)
    assert (report.new, report.unchanged, report.replaced, report.warnings) == (4, 0, 0, ())
    assert agreed(tmp_path, "kb") == ["level1_2", "level1_19", "level2_1", "level3_1"]
    imported = tmp_path / "problems/kb/level2_1.py"
    assert imported.read_bytes() == (checkout / "KernelBench/level2/1_A.py").read_bytes()
    rows = problems.read_manifest(tmp_path / "problems/kb/manifest.csv")
    assert (rows["level1_19"].name, rows["level1_19"].level) == ("ReLU", 1)
    assert rows["level1_19"].source == "KernelBench/level1/19_ReLU.py"


def test_checkout_names_the_commit_only_where_it_holds_the_bytes(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "-c", "commit.gpgsign=false", "commit", "-q", "-m", "m")
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "KernelBench/level1/2_Two_.py").write_text(source(99))
    (checkout / "KernelBench/level1/3_New.py").write_text(source(3))
    import_checkout(checkout, "kb", tmp_path)
    rows = problems.read_manifest(tmp_path / "problems/kb/manifest.csv")
    assert rows["level1_19"].source == f"{commit}:KernelBench/level1/19_ReLU.py"
    assert rows["level1_2"].source == f"{commit}:KernelBench/level1/2_Two_.py (modified)"
    assert rows["level1_3"].source == "KernelBench/level1/3_New.py"


def test_checkout_levels(checkout: Path, tmp_path: Path) -> None:
    assert import_checkout(checkout, "kb", tmp_path, levels=(4,)).new == 1
    with pytest.raises(ImportRefused, match=r"level7: no problems.*--levels"):
        import_checkout(checkout, "kb", tmp_path, levels=(1, 7))
    with pytest.raises(ImportRefused, match=r"no level<L>/<P>_<name>\.py"):
        import_checkout(tmp_path / "problems", "kb", tmp_path)


def test_two_files_for_one_number_are_named(checkout: Path, tmp_path: Path) -> None:
    (checkout / "KernelBench/level1/019_Again.py").write_text(source(20))
    with pytest.raises(ImportRefused, match=r"level1_19: two different sources.*019_Again\.py.*19_ReLU\.py"):
        import_checkout(checkout, "kb", tmp_path)
    assert not (tmp_path / "problems").exists()


def test_a_rerun_is_a_no_op(checkout: Path, tmp_path: Path) -> None:
    import_checkout(checkout, "kb", tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "problems").rglob("*")}
    report = import_checkout(checkout, "kb", tmp_path)
    assert (report.new, report.unchanged) == (0, 4)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "problems").rglob("*")} == before


def test_a_differing_problem_is_never_replaced_silently(checkout: Path, tmp_path: Path) -> None:
    import_checkout(checkout, "kb", tmp_path)
    edited = tmp_path / "problems/kb/level1_19.py"
    edited.write_text(source(7))
    (checkout / "KernelBench/level1/4_New.py").write_text(source(4))
    before = tree(tmp_path / "problems")
    with pytest.raises(ImportRefused, match=r"1 problems .*level1_19\.py.*--force"):
        import_checkout(checkout, "kb", tmp_path)
    assert tree(tmp_path / "problems") == before
    report = import_checkout(checkout, "kb", tmp_path, force=True)
    assert (report.new, report.unchanged, report.replaced) == (1, 3, 1)
    assert edited.read_text() == source(19)


def test_a_lost_problem_and_a_stale_manifest_row_are_mended(checkout: Path, tmp_path: Path) -> None:
    import_checkout(checkout, "kb", tmp_path)
    manifest = tmp_path / "problems/kb/manifest.csv"
    whole = tree(tmp_path / "problems")
    (tmp_path / "problems/kb/level1_2.py").unlink()
    manifest.write_text(manifest.read_text().replace(problems.read_manifest(manifest)["level2_1"].sha256, "0" * 64))
    assert import_checkout(checkout, "kb", tmp_path).new == 1
    assert tree(tmp_path / "problems") == whole


def test_unusable_problems_are_imported_and_told(checkout: Path, tmp_path: Path) -> None:
    (checkout / "KernelBench/level1/3_Broken.py").write_text("class Model: pass\n")
    (checkout / "KernelBench/level1/4_Latin.py").write_bytes(source().encode() + b"# \xe9\n")
    (checkout / "KernelBench/level1/helper.py").write_text("")
    report = import_checkout(checkout, "kb", tmp_path)
    assert report.new == 6
    assert len(report.warnings) == 3
    assert all(
        any(word in w for w in report.warnings) for word in ("no `get_inputs`", "not UTF-8", "helper.py: ignored")
    )
    assert (tmp_path / "problems/kb/level1_4.py").read_bytes().endswith(b"\xe9\n")


def parquet(path: Path, rows: list[dict[str, object]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet_module = pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet_module.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def parquet_row(level: int, number: int, code: str | None = None) -> dict[str, object]:
    return {"code": code or source(number), "level": level, "name": f"{number}_Name", "problem_id": number}


def test_parquet_one_file_per_level_and_all_in_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    parquet(
        folder / "level_1-00000-of-00001.parquet", [parquet_row(1, 2, "# \u2028é\r\n" + source()), parquet_row(1, 1)]
    )
    parquet(folder / "level_2-00000-of-00001.parquet", [parquet_row(2, 1)])
    parquet(folder / "level_4-00000-of-00001.parquet", [parquet_row(4, 1)])
    report = import_parquet(folder, "kb", tmp_path)
    assert report.new == 3
    assert report.warnings == ("1 problems of other levels than 1,2,3 were left out (--levels)",)
    assert (tmp_path / "problems/kb/level1_2.py").read_bytes() == ("# \u2028é\r\n" + source()).encode()
    rows = problems.read_manifest(tmp_path / "problems/kb/manifest.csv")
    assert (rows["level1_2"].name, rows["level1_2"].source) == ("Name", "level_1-00000-of-00001.parquet: row 1")
    one = parquet(tmp_path / "all.parquet", [parquet_row(1, 1), parquet_row(2, 1), parquet_row(4, 1)])
    assert import_parquet([one], "kb", tmp_path, levels=(1, 2, 4)).unchanged == 2


def test_parquet_and_checkout_give_the_same_bytes(checkout: Path, tmp_path: Path) -> None:
    import_checkout(checkout, "kb", tmp_path, levels=(1,))
    file = parquet(tmp_path / "x.parquet", [parquet_row(1, 19), parquet_row(1, 2)])
    assert import_parquet(file, "kb", tmp_path).unchanged == 2


def test_parquet_errors_name_file_row_and_column(tmp_path: Path) -> None:
    nothing = tmp_path / "empty"
    nothing.mkdir()
    with pytest.raises(ImportRefused, match="no parquet file"):
        import_parquet(nothing, "kb", tmp_path)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no")
    with pytest.raises(ImportRefused, match=r"broken\.parquet: not a readable parquet file"):
        import_parquet(broken, "kb", tmp_path)
    other = parquet(tmp_path / "other.parquet", [{"code": "x", "level": 1}])
    with pytest.raises(ImportRefused, match=r"other\.parquet: no column name, problem_id; it has code, level"):
        import_parquet(other, "kb", tmp_path)
    null = parquet(tmp_path / "null.parquet", [parquet_row(1, 1), {**parquet_row(1, 2), "code": None}])
    with pytest.raises(ImportRefused, match=r"null\.parquet: row 2: column code: no source"):
        import_parquet(null, "kb", tmp_path)
    assert not (tmp_path / "problems").exists()


def json_lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def test_jsonl(tmp_path: Path) -> None:
    path = json_lines(
        tmp_path / "rows.jsonl",
        [
            {"level_id": 1, "task_id": 7, "ref_code": source() + "# \u2028\r\n"},
            "",
            {"level_id": "2", "task_id": "8", "ref_code": source(), "name": "Named", "custom_code": None},
            {"level_id": 4, "task_id": 8, "ref_code": source()},
            {"level_id": 1, "task_id": 7, "ref_code": source() + "# \u2028\r\n"},
        ],
    )
    report = import_jsonl(path, "v0", tmp_path)
    assert (report.new, len(report.warnings)) == (2, 1)
    assert (tmp_path / "problems/v0/level1_7.py").read_bytes() == (source() + "# \u2028\r\n").encode()
    rows = problems.read_manifest(tmp_path / "problems/v0/manifest.csv")
    assert [(r.name, r.source) for r in rows.values()] == [
        ("level1_7", "rows.jsonl: line 1"),
        ("Named", "rows.jsonl: line 3"),
    ]


GOOD_ROW = {"level_id": 1, "task_id": 1, "ref_code": source()}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"level_id": 1, "ta', "line 2: not JSON"),
        ("[1, 2]", "line 2: not an object"),
        ({**GOOD_ROW, "task_id": None}, r"line 2: task_id is not a whole number \(value None\)"),
        ({**GOOD_ROW, "task_id": 1.5}, r"value 1\.5"),
        ({**GOOD_ROW, "task_id": True}, "value True"),
        ({**GOOD_ROW, "level_id": -1}, "value -1"),
        ({"ref_code": "x"}, r"line 2: level_id .*there are ref_code"),
        ({**GOOD_ROW, "ref_code": None}, "line 2: field ref_code: no source"),
        ({**GOOD_ROW, "ref_code": 3}, r"field ref_code: no source in it \(value '3'\)"),
        ({**GOOD_ROW, "ref_code": "\ud800"}, "no valid Unicode at character 0"),
        ({**GOOD_ROW, "ref_code": source(2)}, "level1_1: two different sources.*line 1 and .*line 2"),
    ],
)
def test_jsonl_errors_name_file_line_and_value(tmp_path: Path, row: object, words: str) -> None:
    path = json_lines(tmp_path / "rows.jsonl", [GOOD_ROW, row])
    with pytest.raises(ImportRefused, match=words) as caught:
        import_jsonl(path, "v0", tmp_path)
    assert "rows.jsonl" in str(caught.value)
    assert not (tmp_path / "problems").exists()


def test_a_full_disk_while_writing_changes_nothing(checkout: Path, tmp_path: Path, monkeypatch) -> None:
    import_checkout(checkout, "kb", tmp_path, levels=(1,))
    before = tree(tmp_path / "problems")
    calls = []

    def full(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_plan.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        import_checkout(checkout, "kb", tmp_path)
    assert tree(tmp_path / "problems") == before
    monkeypatch.undo()
    assert import_checkout(checkout, "kb", tmp_path).new == 2


def test_a_kill_between_two_renames_is_completed_by_the_next_run(checkout: Path, tmp_path: Path, monkeypatch) -> None:
    rename = os.replace
    done = []

    def killed(old: str, new: str) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(new)
        rename(old, new)

    monkeypatch.setattr(file_plan.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        import_checkout(checkout, "kb", tmp_path)
    monkeypatch.undo()
    report = import_checkout(checkout, "kb", tmp_path)
    assert (report.new, report.unchanged) == (2, 2)
    assert len(agreed(tmp_path, "kb")) == 4


def command_line(*words: object) -> int:
    parser = argparse.ArgumentParser()
    problem_import.add_parser(parser.add_subparsers())
    args = parser.parse_args(["import-problems", *map(str, words)])
    return int(args.run(args))


def test_command_line_tells_the_forms_apart(checkout: Path, tmp_path: Path, capsys) -> None:
    lines = json_lines(tmp_path / "rows.jsonl", [GOOD_ROW])
    file = parquet(tmp_path / "data/level_1.parquet", [parquet_row(1, 1)])
    for suite, path in {"a": checkout, "b": file, "c": file.parent, "d": lines}.items():
        assert command_line("--from", path, "--suite", suite, "--root", tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{suite}: {n} problems new, 0 unchanged, 0 replaced" for suite, n in {"a": 4, "b": 1, "c": 1, "d": 1}.items()
    ]


def test_command_line_errors(checkout: Path, tmp_path: Path, capsys) -> None:
    assert command_line("--from", tmp_path / "absent", "--suite", "s", "--root", tmp_path) == 2
    assert "absent" in capsys.readouterr().err
    assert command_line("--from", checkout, "--suite", "../evil", "--root", tmp_path) == 2
    assert "../evil" in capsys.readouterr().err
    assert command_line("--from", checkout, "--suite", "s", "--root", tmp_path, "--levels", "1") == 0
    (tmp_path / "problems/s/level1_19.py").write_text("edited")
    assert command_line("--from", checkout, "--suite", "s", "--root", tmp_path) == 2
    assert "--force" in capsys.readouterr().err
    assert command_line("--from", checkout, "--suite", "s", "--root", tmp_path, "--force") == 0
    with pytest.raises(SystemExit):
        command_line("--from", checkout, "--suite", "s", "--levels", "one")


@pytest.mark.skipif(not REAL_JSONL.is_file(), reason="KBV_TEST_JSONL does not name the published JSON lines")
def test_the_published_json_lines(tmp_path: Path) -> None:
    report = import_jsonl(REAL_JSONL, "kernelbench-v0", tmp_path)
    assert (report.new, report.warnings) == (125, ())
    found = [ProblemKey("kernelbench-v0", name) for name in agreed(tmp_path, "kernelbench-v0")]
    assert [sum(key.level == level for key in found) for level in (1, 2, 3)] == [50, 50, 25]
    for key in found:
        problems.static_check(key.source_path(tmp_path))
