"""What a module defines that is no torch: kernels written in Python dialects, and extensions built from C++ text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kbverified.static_view import cplusplus
from kbverified.static_view.cplusplus import CppSource
from kbverified.static_view.program import FUNCTIONS, Function, Program, Value, in_order

TEXT_LIMIT_CHARACTERS = 1 << 20
"""Of one extension's text so much is read."""

# Decorators of functions that run on the device, by what they are imported as.
_DIALECTS = {
    "triton.jit": "Triton",
    "triton.experimental.gluon.jit": "Triton",
    "cutlass.cute.kernel": "CuTe DSL",
    "cutlass.cute.jit": "CuTe DSL",
    "cuda.tile.kernel": "cuTile",
    "tilelang.jit": "TileLang",
    "tilelang.language.prim_func": "TileLang",
    "tilelang.language.macro": "TileLang",
    "numba.cuda.jit": "Numba",
    "numba.njit": "Numba",
    "numba.jit": "Numba",
    "numba.vectorize": "Numba",
    "cupyx.jit.rawkernel": "CuPy",
}

# Calls that make an extension, by the end of their full name; the language is what its text says.
_BUILDERS = (
    "cpp_extension.load_inline",
    "cpp_extension.load",
    "cupy.RawKernel",
    "cupy.RawModule",
    "cupy.ElementwiseKernel",
    "cuda._compile_kernel",
    "pycuda.compiler.SourceModule",
    "ctypes.CDLL",
    "ctypes.cdll.LoadLibrary",
    "cffi.FFI",
)


@dataclass(frozen=True)
class PythonKernel:
    """A function in a dialect of Python that a compiler turns into a kernel."""

    node: Function
    language: str


@dataclass(frozen=True, eq=False)
class Extension:
    """An extension that a call builds."""

    node: ast.Call
    source: CppSource
    functions: frozenset[str]
    """Names in ``functions=``: exported under their own names."""
    called_directly: bool
    """Nothing in its text says what Python sees of it: whoever reaches it reaches all of it."""

    @property
    def language(self) -> str:
        return "CUDA C++" if self.source.has_cuda else "C++"


def python_kernels(program: Program) -> dict[ast.AST, PythonKernel]:
    """Functions with a decorator of a kernel dialect, by their node."""
    found: dict[ast.AST, PythonKernel] = {}
    for function in (f for several in program.functions.values() for f in several):
        for decorator in function.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            path = program.dotted(target)
            if path in _DIALECTS:
                found[function] = PythonKernel(function, _DIALECTS[path])
    for info in program.classes.values():
        for function in (f for several in info.methods.values() for f in several):
            for decorator in function.decorator_list:
                path = program.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if path in _DIALECTS:
                    found[function] = PythonKernel(function, _DIALECTS[path])
    return found


def extensions(program: Program) -> dict[ast.AST, Extension]:
    """Extensions that the module builds anywhere, by the call that does."""
    found: dict[ast.AST, Extension] = {}
    for node in program.parents:
        if isinstance(node, ast.Call):
            path = program.dotted(node.func)
            if path is not None and path.endswith(_BUILDERS):
                found[node] = _extension(program, node, path)
    return found


def _extension(program: Program, node: ast.Call, path: str) -> Extension:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    functions = keywords.get("functions", node.args[3] if len(node.args) > 3 else None)
    names = frozenset(strings(program, functions)) if functions is not None else frozenset()
    texts = [text for text in strings(program, node) if re.search("[;{}]", text)]
    if not any(
        cplusplus.LOOKS_LIKE_CPP.search(text) for text in texts
    ):  # files that the module writes, a format it fills in: then any C++ text of the module may be it
        texts = [
            other.value
            for other in program.parents
            if isinstance(other, ast.Constant)
            and isinstance(other.value, str)
            and cplusplus.LOOKS_LIKE_CPP.search(other.value)
        ]
    source = cplusplus.read(" ".join(dict.fromkeys(texts))[:TEXT_LIMIT_CHARACTERS])
    return Extension(node, source, names, "cpp_extension" not in path)


def strings(program: Program, node: ast.expr) -> list[str]:
    """All string constants that may be part of an expression: in itself, in its names' values, in its calls."""
    found: list[str] = []
    seen: set[ast.AST] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        here = waiting.pop(0)
        if here in seen:
            continue
        seen.add(here)
        for part in in_order(here):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found.append(part.value)
            elif isinstance(part, ast.Name):
                waiting.extend(value.node for value in _values(program, part.id))
                waiting.extend(r for f in program.functions.get(part.id, ()) for r in _returned(f))
            elif isinstance(part, ast.Attribute) and part is not getattr(here, "func", None):
                info = program.enclosing_class(part)
                if info is not None:
                    waiting.extend(value.node for value in info.attributes.get(part.attr, ()))
                    waiting.extend(r for f in info.methods.get(part.attr, ()) for r in _returned(f))
    return found


def _values(program: Program, name: str) -> list[Value]:
    return program.values.get(name, []) + program.inner.get(name, [])


def _returned(function: Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def is_kernel_scope(program: Program, kernels: dict[ast.AST, PythonKernel], node: ast.AST) -> bool:
    """Whether a node stands inside a function of a kernel dialect."""
    above: ast.AST | None = node
    while above is not None:
        if isinstance(above, FUNCTIONS) and above in kernels:
            return True
        above = program.parents.get(above)
    return False
