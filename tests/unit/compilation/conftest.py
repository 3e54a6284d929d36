"""The slim headers of this machine, made once for all tests of a session (about 25 s of CPU)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbverified.compilation import precompiled, slim_tree, toolchain


@pytest.fixture(scope="session")
def tree(shared_build: Path) -> Path:
    tools = toolchain.find(None)
    tools.require_compiler()
    if "clang" in str(tools.cxx_version):
        pytest.skip("GCC's precompiled headers and marks are read here")
    made = slim_tree.slim_tree(shared_build, tools)
    assert made is not None
    assert precompiled.precompile(made, tools, ("-O3",))
    return made
