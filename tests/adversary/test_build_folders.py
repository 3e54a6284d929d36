"""What a candidate may leave in its build directory, and what the judge takes back of it."""

from __future__ import annotations

import os

from kbverified.compilation import directory
from kbverified.sandbox import reclaim


def _deep(folder, levels, name):
    """A chain of folders that no path reaches: made step by step, as a candidate would."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(levels):
            os.mkdir(name)
            os.chdir(name)
        os.close(os.open("file", os.O_CREAT, 0o600))
    finally:
        os.chdir(here)


def test_folders_beyond_every_path_are_removed(tmp_path):
    """shutil.rmtree ends in a RecursionError here, a walk by paths in ENAMETOOLONG: a fault at every retry."""
    _deep(tmp_path, 1500, "d" * 100)
    _deep(tmp_path, 1500, "e")
    (tmp_path / "module.so").touch()
    removed = reclaim(tmp_path)
    assert len(removed) == 2
    left = [os.path.join(place, name) for place, _, names in os.walk(tmp_path) for name in names]
    assert left == [str(tmp_path / "module.so")]
    assert max(len(place) for place, _, _ in os.walk(tmp_path)) < 4096


def test_a_build_of_usual_depth_stays(tmp_path):
    _deep(tmp_path, 60, "d")
    assert reclaim(tmp_path) == []
    assert sum(len(names) for _, _, names in os.walk(tmp_path)) == 1


def test_links_and_closed_folders_of_a_killed_judge_are_taken_back(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    build = tmp_path / "build"
    build.mkdir()
    (build / "link").symlink_to(outside)
    os.mkfifo(build / "pipe")
    (build / "closed").mkdir()
    (build / "closed" / "file").touch()
    os.chmod(build / "closed", 0)
    with directory.locked(build):
        assert (build / "closed").stat().st_mode & 0o777 == 0o755
        assert sorted(os.listdir(build)) == ["closed", "link"]
    assert outside.stat().st_mode & 0o777 == 0o700
