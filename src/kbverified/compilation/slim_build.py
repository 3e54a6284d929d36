"""Inside the worker: the arguments of one build request, changed so that its sources are read with slim headers.

What is written here lies in the candidate's own build directory and changes only its own builds, so nothing is lost
in that the candidate's process writes it; the shared headers and their index are read-only to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kbverified.compilation.slim_choice import ENTRIES, Choice, NeedsFull, choose
from kbverified.compilation.slim_headers import BINDINGS
from kbverified.compilation.slim_tree import DEFINE, INDEX, KEPT

_FLAG_IS_HARMLESS = re.compile(
    r"-O\w*|-g|-w|-pthread|-lineinfo|-rdc=\w+|-U\w+|--?std=[\w+]+|-W[a-z][\w=-]*|-f[\w=-]+|-m[\w=.-]+"
    r"|-gencode[= ].*|--generate-code[= ].*|-arch=\w+|--gpu-architecture=\w+|(?:arch|code)=[\w,=\[\]]+"
    r"|--?use_fast_math|--expt-[\w-]+|--extended-lambda|--?maxrregcount[= ]?\d*|--?(?:ftz|prec-div|prec-sqrt|fmad)=\w+"
    r"|-Xptxas(?:[= ][\w=,.-]+)?|--ptxas-options=[\w=,.-]+|--?resource-usage|-res-usage|--threads[= ]?\d*|-t=?\d*"
    r"|-Xcompiler[= ]-(?:O\w*|f[\w=-]+|W[a-z][\w=-]*|m[\w=.-]+)|--compiler-options[= ]-(?:O\w*|f[\w=-]+)|-v|-dlcm=\w+"
)
"""Flags that bring in no text. Any other means torch's own headers, which costs time and nothing else."""
_FLAG_DEFINES = re.compile(r"^-D\s*(\w+)(?:=(.*))?$", re.DOTALL)
_TORCHS_OWN = ("AT_", "C10_", "TORCH_", "PYBIND11_", "USE_")
_CUDA_PREAMBLE = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
_CPP_PREAMBLE = "#include <torch/extension.h>\n"
_BINDINGS = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(, torch::wrap_pybind_function()); }\n"


class SlimHeaders:
    """The shared folder of slim headers, and what it does to a request."""

    def __init__(self, tree: Path):
        self.tree = tree
        self._index: dict[str, Any] | None = None
        self.left_full: list[str] = []
        """What the last request has to read with torch's own headers, and why: ``cpp: the flag -I/x``."""

    @property
    def index(self) -> dict[str, Any]:
        if self._index is None:
            self._index = json.loads((self.tree / INDEX).read_text())
        return self._index

    def arguments(
        self, function: str, arguments: dict[str, Any], folder: Path, kinds: tuple[str, ...] = ("cpp", "cuda")
    ) -> dict[str, Any]:
        """The arguments with which to build a request in ``folder`` with slim headers, as far as its sources allow.

        ``kinds``: the compilers that may have slim headers; torch's builder runs them apart.

        Raises NeedsFull where none of them can be read so; OSError, ValueError where the index cannot.
        """
        if arguments.get("with_sycl") or arguments.get("sycl_sources"):
            raise NeedsFull("SYCL sources")
        changed = dict(arguments)
        self.left_full = reasons = []
        for kind, flags in (("cpp", "extra_cflags"), ("cuda", "extra_cuda_cflags")):
            if kind not in kinds:
                continue
            try:
                texts = _sources(function, arguments, kind)
                if not texts:
                    continue
                _check_flags(arguments.get(flags), arguments.get("extra_include_paths"), texts)
                choice = self._choose(texts, kind == "cpp")
            except NeedsFull as reason:
                reasons.append(f"{kind}: {reason}")
                continue
            implicit = kind == "cpp" and function == "load_inline" and not arguments.get("no_implicit_headers")
            added = self._flags(choice, folder / "headers" / kind, implicit)
            changed[flags] = [*(changed.get(flags) or []), *added]
        if len(changed) == len(arguments) and all(changed[name] is arguments[name] for name in arguments):
            raise NeedsFull("; ".join(reasons) or "no source that slim headers are for")
        changed["extra_ldflags"] = [*(changed.get("extra_ldflags") or []), _quoted(str(self.tree / KEPT))]
        return changed

    def _flags(self, choice: Choice, place: Path, implicit: bool) -> list[str]:
        """Write what a source needs beside the base; the flags that make a compiler find it.

        ``implicit``: the source begins with torch/extension.h, as the builder writes it. Then that one is taken
        precompiled, and what else is needed follows it.
        """
        rest = [_quoted(f"-I{self.tree}"), DEFINE]
        if not (implicit and choice.python):
            _write(place, choice, ENTRIES)
            return [_quoted(f"-I{place}"), *rest]
        bindings = _quoted(f"-I{self.tree / BINDINGS}")
        if not choice.headers and not choice.text:
            return [bindings, *rest]
        _write(place, choice, ())
        return [bindings, _quoted(f"-I{place}"), *rest, "-include torch/extension.h -include kbv/source.h"]

    def _choose(self, texts: list[str], python: bool) -> Choice:
        """One choice for all sources of a compiler, which share its flags. Raises NeedsFull."""
        chosen = [choose(text, self.index, python) for text in texts]
        if len({choice.python for choice in chosen}) > 1:
            raise NeedsFull("only some of the sources want the bindings' headers")
        headers = dict.fromkeys(path for choice in chosen for path in choice.headers)
        extra = dict.fromkeys(choice.text for choice in chosen if choice.text)
        if len(extra) > 1:  # the same function may stand in two of them
            raise NeedsFull("several sources use torch's factories")
        return Choice(tuple(headers), "".join(extra), chosen[0].python)


def _sources(function: str, arguments: dict[str, Any], kind: str) -> list[str]:
    """The texts that one compiler will read, as torch's builder puts them together. Raises NeedsFull."""
    if function == "load_inline":
        named = arguments.get("cuda_sources" if kind == "cuda" else "cpp_sources") or []
        parts = [named] if isinstance(named, str) else [str(part) for part in named]
        if kind == "cuda" and not parts:
            return []
        implicit = "" if arguments.get("no_implicit_headers") else _CUDA_PREAMBLE if kind == "cuda" else _CPP_PREAMBLE
        bindings = _BINDINGS + str(arguments["functions"]) if kind == "cpp" and arguments.get("functions") else ""
        # The names of functions stand in the bindings as code, so no quotes may hide them.
        return [implicit + "\n".join(parts) + "\n" + bindings.replace("'", " ").replace('"', " ")]
    named = arguments.get("sources") or []
    paths = [named] if isinstance(named, str) else list(named)
    wanted = [path for path in paths if str(path).endswith((".cu", ".cuh")) == (kind == "cuda")]
    return [Path(path).read_text() for path in wanted]


def _check_flags(flags: Any, include_paths: Any, texts: list[str]) -> None:
    """Raises NeedsFull where flags bring in text that nobody has looked into."""
    for flag in flags or []:
        text = str(flag).strip()
        if not text:  # what many candidates pass for no flag at all
            continue
        defined = _FLAG_DEFINES.match(text)
        if not defined and not _FLAG_IS_HARMLESS.fullmatch(text):
            raise NeedsFull(f"the flag {text[:80]}")
        if defined and (defined[1].startswith(_TORCHS_OWN) or re.search(r"[A-Za-z_]", defined[2] or "")):
            raise NeedsFull(f"the flag {text[:80]}")
    for folder in [include_paths] if isinstance(include_paths, str) else include_paths or []:
        for name in (name for text in texts for name in re.findall(r'#\s*include\s*[<"]([^>"\n]+)', text)):
            if (Path(str(folder)) / name).exists():
                raise NeedsFull(f"{name[:80]} may be a file of the candidate's own")


def _write(place: Path, choice: Choice, entries: Iterable[str]) -> None:
    """torch's general headers, as this source needs them."""
    base = "kbv/python.h" if choice.python else "kbv/base.h"
    lines = ["#pragma once", f"#include <{base}>", *(f"#include <{path}>" for path in choice.headers), choice.text, ""]
    for name in entries:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n#include <kbv/source.h>\n")
    (place / "kbv").mkdir(parents=True, exist_ok=True)
    (place / "kbv" / "source.h").write_text("\n".join(lines))


def _quoted(flag: str) -> str:
    """Flags go through ninja and a shell, which torch leaves to whoever names them."""
    return shlex.quote(flag.replace("$", "$$"))


@contextlib.contextmanager
def no_dependency_files() -> Iterator[None]:
    """Builds of their own directory need no list of included files, which costs nvcc one more preprocessing."""
    name = "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
