"""What killed processes leave on the way to its place is removed, and what living ones write is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbverified import file_plan, incoming, response_store

BEGIN = """
import sys
from pathlib import Path
from kbverified import file_plan, response_store
folder = Path(sys.argv[1])
"""
WRITERS = {
    "a room for an answer": """
with response_store.room(folder / "a.json"):
    print("there", flush=True)
    sys.stdin.readline()
""",
    "an answer": """
def wait(*_):
    print("there", flush=True)
    sys.stdin.readline()
response_store._rename_to_new = wait
given = dict(candidate="a", prompt_sha256="", messages=(), model="m", received_at="", content="", raw={})
response_store.append(folder / "a.json", response_store.StoredResponse(**given))
""",
    "files of an import": """
def wait(*_):
    print("there", flush=True)
    sys.stdin.readline()
file_plan.os.replace = wait
file_plan.commit({folder / "a": b"1"}, folder)
""",
}


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".incoming-")]


def make_old(folder: Path) -> None:
    for path in folder.iterdir():
        then = time.time() - incoming.YOUNG_S - 60
        os.utime(path, (then, then))


@pytest.mark.parametrize("what", WRITERS)
def test_what_a_killed_writer_leaves_is_removed_by_the_next(what: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", BEGIN + WRITERS[what], str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "there\n"
        make_old(tmp_path)
        incoming.sweep(tmp_path)
        assert len(left(tmp_path)) == 1, "its writer lives"
        writer.kill()
    assert len(left(tmp_path)) == 1
    os.utime(tmp_path / left(tmp_path)[0])
    incoming.sweep(tmp_path)
    assert len(left(tmp_path)) == 1, "it is young"
    make_old(tmp_path)
    if what == "files of an import":
        file_plan.commit({tmp_path / "b": b"2"}, tmp_path)
    else:
        with response_store.room(tmp_path / "b.json"):
            assert len(left(tmp_path)) == 1  # the room itself
    assert left(tmp_path) == []
