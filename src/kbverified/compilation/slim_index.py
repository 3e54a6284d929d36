"""An index of what torch's full headers declare and the slim ones do not, for ``slim_choice.py``. Torch-free."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kbverified.compilation.declarations import MACRO, Declarations
from kbverified.compilation.slim_compiler import Compiler
from kbverified.compilation.slim_headers import functions_by_hand

_LIGHT = re.compile(r"(?:c10|torch/headeronly)/|ATen/(?!native/|cpu/)(?!.*(?:_inl|-inl)\.h)|torch/library\.h$")
"""Headers that stand alone and cost little beside the base; others of torch mean the full headers."""


def make_index(compiler: Compiler, folder: Path, include: Path, slim: list[str]) -> dict[str, Any]:
    """What torch's headers in ``include`` declare and the bases in ``folder`` do not.

    ``slim``: the flags that make the compiler find the slim headers. Raises CalledProcessError, TimeoutExpired.
    """
    full = compiler.declared(folder, "torch/extension.h")
    types = compiler.included(folder, "torch/types.h")
    base = compiler.declared(folder, "kbv/base.h", slim)
    python = compiler.declared(folder, "kbv/python.h", slim)
    return _Index(full, types, base, python, folder, include).result()


class _Index:
    def __init__(
        self,
        full: Declarations,
        types: frozenset[str],
        base: Declarations,
        python: Declarations,
        folder: Path,
        include: Path,
    ):
        self.full, self.types, self.base, self.python = full, types, base, python
        self.folder, self.include = folder, include
        self.ranks = {header: rank for rank, header in enumerate(full.parents)}
        self.headers: list[dict[str, Any]] = []
        self.namespaces: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._spaces: dict[str, int] = {}

    def result(self) -> dict[str, Any]:
        names: dict[str, list[tuple[int, int, int]]] = {}
        base, python = _known(self.base), _known(self.python)
        for name, entries in self.full.names.items():
            for header, space, text in entries:
                if header in self.base.parents or (name, space, text) in base:
                    continue
                if header.startswith("<"):
                    continue
                known = header in self.python.parents or (name, space, text) in python
                entry = (self._header(header, name), self._space(space), int(known))
                if entry not in names.setdefault(name, []):
                    names[name].append(entry)
        indexing = self._header(str(self.include / "ATen/TensorIndexing.h"))
        return {
            "names": names,
            "headers": self.headers,
            "namespaces": self.namespaces,
            "methods": {name: [indexing] for name in ("index", "index_put", "index_put_")},
            "functions": self._functions(),
            "usings": self._usings(),
            "searched": _searched(self.full.directives),
            "aliases": {name: sorted(targets) for name, targets in self.full.aliases.items()},
            "unknown": [
                "torch/csrc/",
                "torch/nn",
                "torch/jit",
                "torch/data",
                "torch/optim",
                "torch/script",
                "ATen/native/",
            ],
        }

    def _space(self, path: str) -> int:
        if path not in self._spaces:
            self._spaces[path] = len(self.namespaces)
            types = path in self.base.class_namespaces or path in self.python.class_namespaces
            last = path.split("::")[-1]
            opened = ("", last) in self.full.directives
            self.namespaces.append({"path": path, "last": last, "types": types or opened})
        return self._spaces[path]

    def _header(self, header: str, name: str = "") -> int:
        """Number of a header, or of one function of a header that is taken function by function."""
        path, kind = self._include(header)
        if kind == "function":
            path = name
        if (header, path) not in self._numbers:
            self._numbers[header, path] = len(self.headers)
            rank, types = self.ranks.get(header, 0), header in self.types
            self.headers.append({"path": path, "kind": kind, "rank": rank, "types": types})
        return self._numbers[header, path]

    def _include(self, header: str) -> tuple[str, str]:
        """How to include a header, and whether that is done at all (``full``: the source gets the full headers)."""
        root = f"{self.include}/"
        if not header.startswith(root):
            step = header
            while (parent := self.full.parents.get(step, "")) and not parent.startswith(root):
                if parent.startswith(str(self.folder)):
                    break
                step = parent
            return re.sub(r".*/include/(?:c\+\+/[^/]+/)?(?:x86_64-linux-gnu/)?", "", step), "system"
        path = header.removeprefix(root).removeprefix("torch/csrc/api/include/")
        if path.endswith("autograd/generated/variable_factories.h") or path == "ATen/Functions.h":
            return path, "function"
        if path.startswith("ATen/ops/") and path.endswith("_native.h"):
            return path, "full"
        return path, "light" if _LIGHT.match(path) else "full"

    def _functions(self) -> dict[str, dict[str, Any]]:
        """Functions that torch's general headers define: their text there, and the headers which that needs."""
        text = (self.include / "torch/csrc/autograd/generated/variable_factories.h").read_text()
        makers = re.findall(r"^(inline [^\n(]*?(\w+)\(.*?^\}\n)", text, re.MULTILINE | re.DOTALL)
        found: dict[str, dict[str, Any]] = {}
        for space, name, one in (
            *(("torch", name, one) for one, name in makers),
            *(("at", name, one) for name, one in functions_by_hand(self.include, with_operators=True)),
        ):
            entry = found.setdefault(name, {"text": "", "headers": []})
            entry["text"] += f"namespace {space} {{\n{one}}}\n"
            for used in re.findall(r"\bat::(\w+)\(", one):
                header = f"ATen/ops/{used.removesuffix('_symint')}.h"
                if (self.include / header).exists():
                    entry["headers"].append(header)
            if "TensorDataContainer" in one:
                entry["headers"].append("torch/detail/TensorDataContainer.h")
            entry["headers"] = sorted(set(entry["headers"]))
        return found

    def _usings(self) -> dict[str, list[str]]:
        """using-declarations of the full headers in torch's general namespaces, which the slim ones repeat."""

        have = {(name, entry[1], entry[2]) for name, entries in self.base.usings.items() for entry in entries}
        found: dict[str, set[str]] = {}
        for name, entries in self.full.usings.items():
            for header, space, text in entries:
                target = text.removeprefix("using ").split("::")[0]
                if (
                    space in ("torch", "at", "c10")
                    and target in ("at", "c10", "std")
                    and (name, space, text) not in have
                ):
                    if header.startswith(str(self.include)):
                        found.setdefault(name, set()).add(f"namespace {space} {{ {text}; }}")
        return {name: sorted(texts) for name, texts in found.items()}


def _known(declared: Declarations) -> set[tuple[str, str, int]]:
    return {
        (name, space, text) for name, entries in declared.names.items() for _, space, text in entries if space != MACRO
    }


def _searched(directives: set[tuple[str, str]]) -> dict[str, list[str]]:
    """Last component of a namespace to those of the namespaces that a qualified lookup in it goes on to."""
    found: dict[str, set[str]] = {}
    for space, opened in directives:
        if space:
            found.setdefault(space.split("::")[-1], set()).add(opened)
    for _ in range(len(found)):
        for opened_here in found.values():
            opened_here |= {further for one in tuple(opened_here) for further in found.get(one, ())}
    return {space: sorted(opened) for space, opened in found.items()}
