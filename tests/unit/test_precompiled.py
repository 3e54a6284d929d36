"""A precompiled header changes how long a build takes and never what it builds.

Slow: torch's headers are really compiled, once precompiled and once as they are.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kbverified.compilation import precompiled, toolchain

# As in the bundled candidates: the same header then serves the stages' tests of one session.
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
        ("x - O3", ()),
        ("-Wall", ()),
    ],
)
def test_the_flag_is_guessed_from_the_text(text, flags):
    assert precompiled.guess_flags(text) == flags


def test_the_standard_is_that_of_torchs_builder():
    from torch.utils import cpp_extension

    assert precompiled.cxx_standard() in Path(cpp_extension.__file__).read_text()
    assert precompiled.cxx_standard().startswith("-std=c++")


def test_a_header_that_cannot_be_made_is_none(tmp_path, monkeypatch):
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1.0 && exit 0\necho no space >&2\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    toolchain.find.cache_clear()
    try:
        tools = toolchain.find(None)
        assert precompiled.precompiled_header(tmp_path / "root", tools, ()) is None
    finally:
        toolchain.find.cache_clear()
    (log,) = (tmp_path / "root").rglob("failed.log")
    assert "no space" in log.read_text()
    assert not list((tmp_path / "root").rglob("*.gch")) and not list((tmp_path / "root").rglob("*.tmp"))


def test_a_header_is_made_once_per_toolchain_and_flags(tmp_path, monkeypatch):
    """With a compiler that only says what it was asked, and takes its time: four at once make one."""
    compiler = tmp_path / "c++"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit 0\n'
        f'echo "$@" >> {tmp_path}/calls\nsleep 0.3\nfor last; do :; done\necho header > "$last"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    toolchain.find.cache_clear()
    from concurrent.futures import ThreadPoolExecutor

    try:
        tools = toolchain.find(None)
        with ThreadPoolExecutor(4) as pool:
            made = set(pool.map(lambda _: precompiled.precompiled_header(tmp_path / "root", tools, (FLAG,)), range(4)))
        (folder,) = made
        assert (folder / "torch" / "extension.h.gch").read_text() == "header\n"
        assert precompiled.precompiled_header(tmp_path / "root", tools, ()) != folder
    finally:
        toolchain.find.cache_clear()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert FLAG in calls[0].split() and FLAG not in calls[1].split()


# --- with the real compiler ------------------------------------------------------------------------------------------

CODE = r"""
#include <torch/extension.h>
extern "C" int answer() { return static_cast<int>(torch::arange(7).sum().item<int64_t>()); }
"""


@pytest.fixture(scope="module")
def header(tmp_path_factory) -> Path:
    tools = toolchain.find(None)
    tools.require_compiler()
    if "clang" in str(tools.cxx_version):
        pytest.skip("GCC's marks in -H are read here")
    # Where the stages' tests build: whoever comes first makes it.
    found = precompiled.precompiled_header(tmp_path_factory.getbasetemp() / "shared-build", tools, (FLAG,))
    assert found is not None
    return found


def compile_with(header: Path | None, folder: Path, *flags: str) -> tuple[float, str, Path]:
    """Compile one object as torch's builder does; (CPU seconds, which headers were taken, the object)."""
    import resource

    import torch

    folder.mkdir()
    (folder / "code.cpp").write_text(CODE)
    include = Path(torch.__file__).parent / "include"
    command = [toolchain.find(None).cxx, "-H", "-MMD", "-MF", str(folder / "code.d")]
    command += ["-DTORCH_EXTENSION_NAME=kbv_test", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    command += [f"-I{header}"] if header else []
    for path in (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include"))):
        command += ["-isystem", str(path)]
    command += [
        "-fPIC",
        precompiled.cxx_standard(),
        *flags,
        "-c",
        str(folder / "code.cpp"),
        "-o",
        str(folder / "code.o"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    return after.ru_utime - before.ru_utime, done.stderr, folder / "code.o"


def answer(objects: Path) -> int:
    """Link and call, in a process of its own."""
    import torch

    library = objects.with_suffix(".so")
    lib = Path(torch.__file__).parent / "lib"
    command = [toolchain.find(None).cxx, "-shared", str(objects), "-o", str(library), f"-L{lib}"]
    subprocess.run([*command, "-lc10", "-ltorch_cpu", "-ltorch"], check=True)
    code = f"import torch, ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_right_guess_saves_time_and_the_wrong_one_only_costs_it(header, tmp_path):
    """The wrong guess reads the plain headers, as a build without a precompiled one does."""
    quick_s, used, quick = compile_with(header, tmp_path / "right", FLAG)
    slow_s, plain, slow = compile_with(header, tmp_path / "wrong", "-O0")
    gch = str(header / "torch" / "extension.h.gch")
    assert f"! {gch}" in used
    assert f"x {gch}" in plain and f"! {gch}" not in plain  # GCC's mark for one that does not fit
    assert answer(quick) == answer(slow) == 21
    assert quick_s < 0.8 * slow_s, (quick_s, slow_s)
