"""Making slim headers: nothing that goes wrong with them keeps a candidate from being compiled."""

from __future__ import annotations

import subprocess
import time

import pytest

from kbverified.compilation import precompiled, slim_tree
from kbverified.compilation.slim_compiler import Compiler
from kbverified.compilation.slim_headers import write_headers
from kbverified.compilation.slim_index import _searched
from kbverified.compilation.toolchain import Toolchain

TOOLS = Toolchain("cpython-311", "2.13", "/usr/bin/c++", "c++ 13", None, None)


def test_a_place_that_cannot_be_written_means_no_slim_headers(tmp_path, capsys):
    (tmp_path / "pch").write_text("a file where the folder should be")
    assert slim_tree.slim_tree(tmp_path, TOOLS) is None
    with slim_tree.in_use(tmp_path, TOOLS) as headers:
        assert headers is None
    assert not precompiled.precompile(tmp_path / "pch", TOOLS, ())
    assert "no slim headers" in capsys.readouterr().err


def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    """The driver's child keeps the pipes open; nobody may wait for it."""
    fake = tmp_path / "c++"
    fake.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/child\nwait\n")
    fake.chmod(0o755)
    compiler = Compiler(Toolchain("cpython-311", "2.13", str(fake), "c++ 13", None, None))
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        compiler.run([], limit_s=1.0)
    assert time.monotonic() - start < 20
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", (tmp_path / "child").read_text().strip()],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert not state.strip() or state.strip().startswith("Z")


def test_a_header_that_is_not_as_foreseen_is_an_error(tmp_path):
    include = tmp_path / "include" / "ATen"
    (include / "core").mkdir(parents=True)
    (include / "ops").mkdir()
    (include / "core" / "TensorBody.h").write_text("auto Tensor::f() { return at::_ops::f::call(*this); }\n")
    (include / "MethodOperators.h").write_text("#include <ATen/core/ATen_fwd.h>\n")
    with pytest.raises(ValueError, match="TensorBody"):
        write_headers(tmp_path / "include", tmp_path / "tree")


def test_where_a_qualified_lookup_goes_on_to():
    found = _searched({("torch", "at"), ("at", "c10"), ("torch::jit::attr", "attr"), ("", "everywhere")})
    assert found == {"torch": ["at", "c10"], "at": ["c10"], "attr": ["attr"]}
