"""What a candidate may leave where the gate's JIT caches are looked for."""

from __future__ import annotations

import os

import pytest

from kbverified.compilation import jit_caches


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The sealed build directory and the private cache of a later stage's worker."""
    sealed, private = tmp_path / "sealed", tmp_path / "private"
    sealed.mkdir()
    monkeypatch.setenv("KBV_SEALED_CACHE", str(sealed))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(private / "triton"))
    monkeypatch.setenv("TMPDIR", "/tmp")
    return sealed, private


def test_a_cache_is_copied(folders):
    sealed, private = folders
    (sealed / "triton" / "abc").mkdir(parents=True)
    (sealed / "triton" / "abc" / "kernel.json").write_text("{}")
    (sealed / "triton" / "link").symlink_to("abc/kernel.json")
    jit_caches.unseal()
    assert (private / "triton" / "abc" / "kernel.json").read_text() == "{}"
    assert (private / "triton" / "link").is_symlink()


def test_a_link_is_not_followed(folders, tmp_path):
    sealed, private = folders
    (tmp_path / "elsewhere").mkdir()
    (sealed / "triton").symlink_to(tmp_path / "elsewhere")
    jit_caches.unseal()
    assert not (private / "triton").exists()


def test_seven_gigabytes_stay_behind(folders):
    sealed, private = folders
    (sealed / "triton").mkdir()
    with open(sealed / "triton" / "sparse", "wb") as file:
        file.truncate(7 << 30)
    jit_caches.unseal()
    assert not (private / "triton").exists()


def test_very_many_files_stay_behind(folders, monkeypatch):
    sealed, private = folders
    monkeypatch.setattr(jit_caches, "_CACHE_LIMIT_FILES", 100)
    (sealed / "nv").mkdir()
    for index in range(101):
        (sealed / "nv" / str(index)).touch()
    jit_caches.unseal()
    assert not (private / "nv").exists()


def test_what_cannot_be_copied_ends_nothing(folders):
    sealed, private = folders
    os.makedirs(sealed / "triton")
    os.mkfifo(sealed / "triton" / "pipe")
    jit_caches.unseal()
    assert not (private / "triton").exists()


def test_what_others_left_in_a_shared_tmp_is_not_used(folders, tmp_path, monkeypatch):
    """Without mounts of its own a worker has a scratch folder: its caches lie there, and start from its own gate's."""
    sealed, scratch = folders[0], tmp_path / "scratch"
    shared = tmp_path / "tmp"
    monkeypatch.setattr(jit_caches, "_SHARED", str(shared))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(shared / "kbv-cache" / "triton"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(shared / "kbv-cache" / "inductor"))
    monkeypatch.setenv("TMPDIR", str(scratch))
    (shared / "kbv-cache" / "inductor").mkdir(parents=True)
    (shared / "kbv-cache" / "inductor" / "planted").touch()
    (sealed / "inductor").mkdir()
    (sealed / "inductor" / "own").touch()
    jit_caches.unseal()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(scratch / "kbv-cache" / "inductor")
    assert os.environ["TRITON_CACHE_DIR"] == str(scratch / "kbv-cache" / "triton")
    assert os.listdir(scratch / "kbv-cache" / "inductor") == ["own"]
