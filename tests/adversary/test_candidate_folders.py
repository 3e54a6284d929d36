"""What may lie in a folder of candidates by mistake."""

from __future__ import annotations

import os

import pytest

from kbverified.generators import GeneratorError, GeneratorSpec, discover_candidates

ODD = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a broken link": lambda path: os.symlink("nowhere", path),
    "a link to a device": lambda path: os.symlink("/dev/zero", path),
}


def _samples(root):
    spec = GeneratorSpec(generator="mine", origin="bundled")
    return [key.sample for key in discover_candidates(root, spec, "suite", ["level1_1"])]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "generations" / "mine" / "suite" / "level1_1"
    folder.mkdir(parents=True)
    (folder / "0.py").touch()
    return folder


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_a_sample_that_is_no_file_is_named(folder, tmp_path, make):
    make(folder / "1.py")
    with pytest.raises(GeneratorError, match=r"level1_1/1\.py: no file"):
        _samples(tmp_path)


def test_what_editors_and_python_leave_is_no_candidate(folder, tmp_path):
    for name in ("0.py~", ".0.py.swp", ".1.py", "0.json", "notes.txt"):
        (folder / name).touch()
    (folder / "__pycache__").mkdir()
    (folder / "2.py").symlink_to("0.py")
    assert _samples(tmp_path) == [0, 2]
