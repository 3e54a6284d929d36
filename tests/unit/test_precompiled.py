"""A precompiled header changes how long a build takes and never what it builds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbverified.compilation import precompiled, slim_compiler, slim_tree, toolchain

FLAG = "-O3"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", ()),
        ('load_inline(extra_cflags=["-O3", "-march=native"])', ("-O3",)),
        ('["-O2"]', ("-O2",)),
        ('["-Ofast"]', ("-Ofast",)),
        ('["-Os"]', ("-Os",)),
        ('extra_cuda_cflags=["-O3"], extra_cflags=["-O1"]', ("-O1",)),
        ('extra_cflags=[""], extra_cuda_cflags=["-O3", "--use_fast_math"]', ()),
        ('extra_cuda_cflags=["-O3", "--use_fast_math"]', ()),
        ('flags = ["-O2"]\nload_inline(extra_cflags=flags, extra_cuda_cflags=["-O3"])', ("-O2",)),
        ("x - O3", ()),
        ("-Wall", ()),
    ],
)
def test_the_flag_is_guessed_from_the_text(text, flags):
    assert precompiled.guess_flags(text) == flags


def test_the_standard_is_that_of_torchs_builder():
    from torch.utils import cpp_extension

    folder = toolchain.torch_folder()
    assert slim_compiler.cxx_standard(folder) in Path(cpp_extension.__file__).read_text()
    assert slim_compiler.cxx_standard(folder).startswith("-std=c++")


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler that notes what it was asked, and answers with this shell script."""

    def made(script: str) -> toolchain.Toolchain:
        path = tmp_path / "c++"
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit 0\necho "$@" >> {tmp_path}/calls\n{script}\n'
        )
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        toolchain.find.cache_clear()
        return toolchain.find(None)

    yield made
    toolchain.find.cache_clear()


def test_slim_headers_that_cannot_be_made_are_none_and_not_tried_again(tmp_path, compiler):
    tools = compiler("echo no such option >&2; exit 1")
    assert slim_tree.slim_tree(tmp_path / "root", tools) is None
    (log,) = (tmp_path / "root").rglob("failed.log")
    assert "no such option" in log.read_text()
    asked = (tmp_path / "calls").read_text()
    assert slim_tree.slim_tree(tmp_path / "root", tools) is None
    assert slim_tree.existing(tmp_path / "root", tools) is None
    assert (tmp_path / "calls").read_text() == asked


def test_a_header_that_cannot_be_precompiled_is_read_as_it_is(tmp_path, compiler):
    tools = compiler("echo broken >&2; exit 1")
    (tmp_path / "tree" / "bindings" / "torch").mkdir(parents=True)
    assert not precompiled.precompile(tmp_path / "tree", tools, ())
    assert not precompiled.precompile(tmp_path / "tree", tools, ())
    (log,) = (tmp_path / "tree").rglob("failed-*.log")
    assert "broken" in log.read_text()
    assert not list((tmp_path / "tree").rglob("*.gch/*")) and not list((tmp_path / "tree").rglob("*.tmp"))
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_header_is_made_once_per_flags(tmp_path, compiler):
    """Four at once make one."""
    tools = compiler('sleep 0.3; for last; do :; done; echo header > "$last"')
    tree = tmp_path / "tree"
    (tree / "bindings" / "torch").mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: precompiled.precompile(tree, tools, (FLAG,)), range(4)))
    assert precompiled.precompile(tree, tools, ())
    folder = tree / "bindings" / "torch" / "extension.h.gch"
    assert sorted(path.name for path in folder.iterdir()) == ["O3.gch", "none.gch"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert FLAG in calls[0].split() and FLAG not in calls[1].split()
