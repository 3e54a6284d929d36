"""The cache is bounded, forgets the longest unused first, and never what somebody holds."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from kbverified.compilation import cache
from kbverified.compilation.directory import build_directory
from kbverified.compilation.toolchain import Toolchain

TOOLS = Toolchain("cpython-311", "2.13", "/usr/bin/c++", "c++ 13", None, None)
SIZE_BYTES = 1 << 20


def made(root: Path, name: str, age_s: float) -> Path:
    """A build directory of one MiB that was used so long ago."""
    folder = build_directory(root, name, TOOLS)
    (folder / "key").mkdir(parents=True)
    (folder / "key" / "module.so").write_bytes(os.urandom(SIZE_BYTES))
    with cache.in_use(folder):
        pass
    used = time.time() - age_s
    os.utime(folder.parent / f"{folder.name}.used", (used, used))
    return folder


def swept(root: Path, limit_mib: float, idle_s: float = 60.0) -> list[Path]:
    return cache.sweep(root, int(limit_mib * SIZE_BYTES), idle_s, every_s=0.0)


def test_the_longest_unused_go_until_the_rest_fits(tmp_path):
    folders = [made(tmp_path, f"{n}", age_s=1000 - n) for n in range(5)]
    assert swept(tmp_path, 3.5) == folders[:2]
    assert [folder.exists() for folder in folders] == [False, False, True, True, True]
    assert swept(tmp_path, 3.5) == []


def test_use_makes_young_again(tmp_path):
    old, older = made(tmp_path, "old", 1000), made(tmp_path, "older", 2000)
    with cache.in_use(older):
        pass
    assert swept(tmp_path, 1.5) == [old]
    assert older.exists()


def test_what_was_just_used_stays_though_the_limit_is_exceeded(tmp_path):
    made(tmp_path, "old", 1000)
    young = made(tmp_path, "young", 10)
    swept(tmp_path, 0)
    assert young.exists()


def test_a_directory_in_use_stays(tmp_path):
    held, other = made(tmp_path, "held", 2000), made(tmp_path, "other", 1000)
    with cache.in_use(held):
        path = held.parent / f"{held.name}.used"
        os.utime(path, (time.time() - 2000,) * 2)  # held for long
        assert swept(tmp_path, 0) == [other]
        assert (held / "key" / "module.so").exists()
    assert swept(tmp_path, 0) == []  # its end was a use
    assert held.exists()


def test_what_a_sweep_left_half_is_finished_and_strange_things_stay(tmp_path):
    folder = made(tmp_path, "a", 10)
    doomed = folder.parent / ".evicted-x-1"
    doomed.mkdir()
    (doomed / "module.so").touch()
    (folder.parent / "link").symlink_to(tmp_path)
    swept(tmp_path, 100)
    assert not doomed.exists() and folder.exists() and (folder.parent / "link").is_symlink()


def test_sweeps_are_rare(tmp_path):
    made(tmp_path, "a", 1000)
    assert cache.sweep(tmp_path, 10 * SIZE_BYTES, 60, every_s=600) == []
    assert cache.sweep(tmp_path, 0, 60, every_s=600) == []  # too soon
    assert len(cache.sweep(tmp_path, 0, 60, every_s=0)) == 1


def test_the_limit_is_the_environments(monkeypatch):
    monkeypatch.delenv(cache.LIMIT_VARIABLE, raising=False)
    assert cache.limit_bytes() == cache.LIMIT_BYTES
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "0.5")
    assert cache.limit_bytes() == 1 << 29
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "much")
    with pytest.raises(ValueError, match="much"):
        cache.limit_bytes()


def use_again_and_again(root: Path, until: float, results) -> None:
    """As a stage does: hold, build where nothing is there, load what is. Nothing may vanish in between."""
    rounds = lost = 0
    while time.time() < until:
        folder = build_directory(root, f"{rounds % 3}", TOOLS)
        with cache.in_use(folder):
            file = folder / "module.so"
            if not file.exists():
                folder.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"x" * 8192)
            time.sleep(0.002)
            lost += not file.exists()
        rounds += 1
    results.put((rounds, lost))


def sweep_again_and_again(root: Path, until: float, results) -> None:
    removed = 0
    while time.time() < until:
        removed += len(cache.sweep(root, 0, idle_s=-1.0, every_s=0.0))
    results.put(removed)


def test_nothing_is_swept_under_a_job(tmp_path):
    """Four jobs and two sweeps that would remove everything: what a job holds is there until it lets go."""
    context = multiprocessing.get_context("fork")
    used, removed, until = context.Queue(), context.Queue(), time.time() + 1.5
    tasks = [(use_again_and_again, used)] * 4 + [(sweep_again_and_again, removed)] * 2
    processes = [context.Process(target=task, args=(tmp_path, until, queue)) for task, queue in tasks]
    for process in processes:
        process.start()
    outcomes = [used.get(timeout=20) for _ in range(4)]
    total = sum(removed.get(timeout=20) for _ in range(2))
    for process in processes:
        process.join()
    assert all(lost == 0 and rounds > 10 for rounds, lost in outcomes), outcomes
    assert total > 0


def test_a_tree_deeper_than_any_path_is_swept_and_stops_nobody(tmp_path):
    doomed = tmp_path / "candidates" / "ab" / "deep"
    doomed.mkdir(parents=True)
    here = os.open(doomed, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (doomed / "file").write_bytes(b"x" * 8192)
    assert cache.sweep(tmp_path, limit=0, idle_s=0.0, every_s=0.0) == [doomed]
    assert not doomed.exists() and not list(doomed.parent.glob(".evicted-*"))


def test_a_file_of_many_names_counts_once(tmp_path):
    folder = tmp_path / "candidates" / "ab" / "linked"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b"x" * (1 << 20))
    for name in range(1, 50):
        os.link(folder / "0", folder / str(name))
    assert cache.sweep(tmp_path, limit=4 << 20, idle_s=0.0, every_s=0.0) == []
    assert folder.exists()


def test_slim_headers_are_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "TREES_LIMIT_BYTES", int(2.5 * SIZE_BYTES))
    trees = [tmp_path / "pch" / f"slim-{n}" for n in range(3)]
    for age, tree in enumerate(reversed(trees)):
        tree.mkdir(parents=True)
        (tree / "all.gch").write_bytes(os.urandom(SIZE_BYTES))
        with cache.in_use(tree):
            pass
        os.utime(tree.parent / f"{tree.name}.used", (time.time() - 1000 * (age + 1),) * 2)
    with cache.in_use(trees[0]):
        os.utime(trees[0].parent / f"{trees[0].name}.used", (time.time() - 9000,) * 2)
        assert swept(tmp_path, 100) == [trees[1]]  # the oldest is in use
    assert [tree.exists() for tree in trees] == [True, False, True]
