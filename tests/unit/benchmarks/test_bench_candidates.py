"""The fixed list of candidates, the rule that it was picked by, and bringing the files together."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import candidates
from benchmarks.candidates import Listed

ROOT = Path(__file__).resolve().parents[3]
CUDA = b"load_inline; __global__ "


def listed(
    generator: str, level: int, number: int, source: bytes, path: str = "a.py", commit: str = "0" * 40
) -> Listed:
    file = f"{generator}/level_{level}_problem_{number}_sample_0_kernel.py"
    return Listed(generator, file, "owner/name", commit, path, hashlib.sha256(source).hexdigest())


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_list_is_long_enough_even_over_levels_and_known() -> None:
    ones = candidates.read_list()
    known = {json.loads(line)["sha256"] for line in (ROOT / "docs/runs/candidates.jsonl").read_text().splitlines()}
    assert Counter(one.level for one in ones) == {1: 16, 2: 16, 3: 16}
    assert len({one.sha256 for one in ones}) == len({one.tail for one in ones}) == 48
    assert {one.sha256 for one in ones} <= known
    assert all(len(one.commit) == 40 for one in ones)


def test_picking_takes_generators_in_turn_and_only_cuda_extensions() -> None:
    sources = [CUDA + bytes([65 + n]) for n in range(6)]
    ones = [
        *(listed("a", 1, n, sources[n]) for n in range(4)),
        listed("b", 1, 4, sources[4]),
        listed("c", 1, 5, b"import triton; load_inline"),
        listed("d", 2, 1, sources[5]),
    ]
    by_hash = {hashlib.sha256(s).hexdigest(): s for s in (*sources, b"import triton; load_inline")}
    picked = candidates.pick(ones, by_hash, per_level=3)
    of_a = sorted(one.sha256 for one in ones if one.generator == "a")
    assert [(one.level, one.generator) for one in picked] == [(1, "a"), (1, "b"), (1, "a"), (2, "d")]
    assert [one.sha256 for one in picked if one.generator == "a"] == of_a[:2]
    assert candidates.pick(reversed(ones), by_hash, per_level=3) == picked, "the order of the longer list is no rule"


def test_files_are_found_by_content_and_written_under_their_own_names(tmp_path: Path) -> None:
    there, changed = listed("a", 1, 1, b"one"), listed("a", 1, 2, b"two")
    (tmp_path / "from/deep").mkdir(parents=True)
    (tmp_path / "from/deep/any_name.py").write_bytes(b"one")
    (tmp_path / "from/level_1_problem_2_sample_0_kernel.py").write_bytes(b"two, edited")
    found = candidates.find([there, changed], [tmp_path / "from"])
    assert found == {there.sha256: b"one"}
    candidates.write_folder([there, changed], found, tmp_path / "into")
    assert candidates.in_folder([there, changed], tmp_path / "into") == {there.tail: tmp_path / "into" / there.file}
    (tmp_path / "into" / there.file).write_bytes(b"one, edited")
    assert candidates.in_folder([there], tmp_path / "into") == {}


def test_a_clone_need_not_be_checked_out_at_the_commit(tmp_path: Path) -> None:
    clone = tmp_path / "clones/name"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    (clone / "a.py").write_bytes(b"then")
    git(clone, "add", "."), git(clone, "commit", "-qm", "then")
    commit = git(clone, "rev-parse", "HEAD")
    (clone / "a.py").write_bytes(b"now")
    git(clone, "commit", "-qam", "now")
    one = listed("a", 1, 1, b"then", "a.py", commit)
    assert candidates.find([one], [tmp_path / "clones"]) == {one.sha256: b"then"}


def test_what_is_missing_is_said_with_where_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = listed("a", 1, 1, b"one", "runs/x.py", "f" * 40)
    lines = tmp_path / "list.jsonl"
    candidates.write_list(lines, [one])
    assert candidates.main(["--list", str(lines), "--from", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "0 of 1" in out and "https://github.com/owner/name" in out and "f" * 40 in out and one.sha256 in out
    assert candidates.main(["--list", str(lines), "--from", str(tmp_path / "nowhere")]) == 2


def test_a_line_without_a_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text('{"generator": "a", "file": 3}\n')
    with pytest.raises(ValueError, match=r"list.jsonl:1: field file is no text \(value 3\)"):
        candidates.read_list(tmp_path / "list.jsonl")
