"""Builds under bad luck: odd paths, a library cut short, a machine that was full for a while."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from kbverified.compilation import hooks, slim_build, toolchain


@pytest.fixture
def requested(tmp_path, monkeypatch):
    """Ask for one extension as a candidate does; returns the names built. The builder itself is a stand-in."""
    built: list[str] = []
    error: list[str] = []

    def load_inline(name, cpp_sources, extra_cflags=None, build_directory=None, verbose=False):
        built.append(name)
        if error:
            raise RuntimeError(error[0])
        Path(build_directory, f"{name}.so").write_bytes(b"library" * 100)
        return "module"

    monkeypatch.setattr(hooks, "_import_built", lambda folder, module, python: (folder / f"{module}.so").read_bytes())

    def request():
        builder = hooks.Hooks(tmp_path, True, None, lambda report: None)
        return builder.request(load_inline, "x", "int f();", (), {})

    request.built, request.error, request.folder = built, error, tmp_path
    return request


def test_a_build_is_made_once(requested):
    requested()
    assert requested() == b"library" * 100
    assert len(requested.built) == 1


def test_a_library_that_was_cut_short_is_built_again(requested):
    requested()
    (library,) = requested.folder.rglob("*.so")
    library.write_bytes(library.read_bytes()[:50])
    requested()
    assert len(requested.built) == 2
    assert library.read_bytes() == b"library" * 100


def test_a_library_that_is_gone_is_built_again(requested):
    requested()
    (library,) = requested.folder.rglob("*.so")
    library.unlink()
    requested()
    assert len(requested.built) == 2


@pytest.mark.parametrize(
    ("text", "remembered"),
    [
        ("error: expected ';'", True),
        ("main.o: No space left on device", False),
        ("c++: fatal error: Killed signal terminated program cc1plus", False),
    ],
)
def test_only_the_sources_own_failure_is_remembered(requested, text, remembered):
    requested.error.append(f"Error building extension 'x': {text}")
    for _ in range(2):
        with pytest.raises(hooks.BuildFailed):
            requested()
    assert len(requested.built) == (1 if remembered else 2)
    assert len(list(requested.folder.rglob(hooks.DONE))) == (1 if remembered else 0)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"module": 3}', '{"module": "x"}', '{"module": "x", "sha256": 1}']
)
def test_a_broken_note_is_no_build(tmp_path, content):
    (tmp_path / hooks.DONE).write_text(content)
    assert hooks._read_done(tmp_path) is None


def test_a_path_cannot_lead_out_of_the_folder_unseen(tmp_path):
    (tmp_path / hooks.DONE).write_text(json.dumps({"module": "../" * 9 + "etc/x", "sha256": "0" * 64}))
    assert hooks._read_done(tmp_path) is None


def test_the_headers_folder_is_one_word():
    assert shlex.split(slim_build._quoted("-I/my tree/pch")) == ["-I/my tree/pch"]
    assert slim_build._quoted("-I/tree/pch") == "-I/tree/pch"


def test_torch_under_a_path_with_a_space_is_said_before_anything_is_built(monkeypatch):
    tools = toolchain.Toolchain("cpython-311", "2.13", "/usr/bin/c++", "c++ 13", None, None)
    tools.require_compiler()
    monkeypatch.setattr(toolchain, "torch_folder", lambda: Path("/home/me/my tree/.venv/torch"))
    with pytest.raises(toolchain.MissingCompiler, match=r"my tree.*VENV="):
        tools.require_compiler()
