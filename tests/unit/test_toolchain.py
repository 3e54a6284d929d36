"""Which compilers there are, and what is said where there is none."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
from pathlib import Path

import pytest

from kbverified.compilation import directory, toolchain


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch) -> Path:
    """A PATH of our own, and nothing remembered of the real one."""
    for name in ("CXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    toolchain.find.cache_clear()
    yield folder
    toolchain.find.cache_clear()


def program(path: Path, text: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_the_compiler_on_the_path_is_found_with_its_version(machine):
    compiler = program(machine / "c++", "c++ (Ours) 99.1\nsecond line")
    found = toolchain.find(None)
    assert (found.cxx, found.cxx_version) == (str(compiler), "c++ (Ours) 99.1")
    assert found.torch == importlib.metadata.version("torch")
    assert found.nvcc_version is None and found.arch is None
    found.require_compiler()
    assert found.environment()["CXX"] == str(compiler)
    assert "TORCH_CUDA_ARCH_LIST" not in found.environment()


def test_cxx_names_another(machine, monkeypatch):
    program(machine / "c++", "not this one")
    mine = program(machine / "mine", "mine 1.0")
    monkeypatch.setenv("CXX", str(mine))
    assert toolchain.find(None).cxx_version == "mine 1.0"


def test_gxx_serves_where_there_is_no_cxx(machine, monkeypatch):
    monkeypatch.setenv("PATH", str(machine))
    program(machine / "g++", "x").write_text("#!/bin/sh\necho gxx 1.0\n")
    assert toolchain.find(None).cxx_version == "gxx 1.0"


@pytest.mark.parametrize("how", ["none", "missing", "fails"])
def test_no_compiler_says_what_to_install(machine, monkeypatch, how):
    monkeypatch.setenv("PATH", str(machine))
    if how != "none":
        monkeypatch.setenv("CXX", str(machine / "broken"))
    if how == "fails":
        (machine / "broken").write_text("#!/bin/sh\nexit 1\n")
        (machine / "broken").chmod(0o755)
    found = toolchain.find(None)
    assert found.cxx_version is None
    with pytest.raises(toolchain.MissingCompiler, match=r"apt install g\+\+.*CXX") as raised:
        found.require_compiler()
    assert ("neither" in str(raised.value)) if how == "none" else (str(machine / "broken") in str(raised.value))


def test_cuda_home_is_looked_for_in_order(machine, monkeypatch, tmp_path):
    nvcc = program(tmp_path / "onpath" / "bin" / "nvcc", "Cuda compilation tools\nBuild 13.0")
    (machine / "nvcc").symlink_to(nvcc)
    assert toolchain.cuda_home() == tmp_path / "onpath"
    monkeypatch.setenv("CUDA_PATH", "/elsewhere")
    assert toolchain.cuda_home() == Path("/elsewhere")
    monkeypatch.setenv("CUDA_HOME", "/named")
    assert toolchain.cuda_home() == Path("/named")


def test_a_device_compiler_counts_only_for_a_gpu(machine, monkeypatch, tmp_path):
    home = tmp_path / "cuda"
    program(home / "bin" / "nvcc", "Cuda compilation tools\nBuild 13.0")
    monkeypatch.setenv("CUDA_HOME", str(home))
    gpu, cpu = toolchain.find("9.0"), toolchain.find(None)
    assert (gpu.nvcc_version, gpu.arch) == ("Build 13.0", "9.0")
    assert cpu.nvcc_version is None
    environment = gpu.environment()
    assert (environment["TORCH_CUDA_ARCH_LIST"], environment["CUDA_HOME"]) == ("9.0", str(home))


TOOLS = toolchain.Toolchain("cpython-311", "2.13.0", "/usr/bin/c++", "12.2", None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"python": "cpython-312"},
        {"torch": "2.9.0"},
        {"cxx_version": "13.1"},
        {"nvcc_version": "13.0"},
        {"arch": "9.0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_toolchain_never_meets_an_old_build(change):
    root = Path("/builds")
    before = directory.build_directory(root, "a" * 64, TOOLS)
    assert directory.build_directory(root, "a" * 64, dataclasses.replace(TOOLS, **change)) != before


def test_the_build_directory_follows_the_candidates_bytes():
    root = Path("/builds")
    one, same, other = (directory.build_directory(root, sha * 64, TOOLS) for sha in "aab")
    assert one == same != other
    # The path of the compiler is no part of it: what it is decides.
    moved = dataclasses.replace(TOOLS, cxx="/opt/bin/c++")
    assert directory.build_directory(root, "a" * 64, moved) == one


def test_a_relative_build_root_becomes_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = directory.build_directory(Path(".build"), "a" * 64, TOOLS)
    assert found.is_relative_to(tmp_path / ".build" / "candidates") and not found.exists()


def test_a_directory_is_held_by_one_at_a_time(tmp_path):
    import threading

    order = []
    with directory.locked(tmp_path / "x" / "y") as held:
        assert held.is_dir()

        def other() -> None:
            with directory.locked(tmp_path / "x" / "y"):
                order.append("second")

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    # Another candidate's is free meanwhile.
    with directory.locked(tmp_path / "x" / "y"), directory.locked(tmp_path / "x" / "z"):
        pass
