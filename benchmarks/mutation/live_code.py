"""Which places of a parent's source do its launches execute? From the text and the names of what was launched.

A fault in a kernel that is never launched is no fault: of the 33 mutants of the first GPU run (of 143 that build) that
came out bitwise equal 12 lay in one, or in what calls it. So mutants are made only where a launch can reach. Dead is

- a ``__global__`` function, or one under ``@triton.jit``, whose name no launched kernel has;
- a ``__device__`` function, or a jitted one, that nothing but dead ones names;
- a C++ host function that cannot be called without launching a kernel that was not launched: the launch stands in no
  branch, no loop and no macro of it, and no ``return`` in front of it. All other host code stays.

In doubt a place is live: a name that is part of a type or a comment counts as use, and so does a library's kernel of
the same name, unless it is torch's own. Torch-free, and a pure function of its arguments. How the names are come by is
``launches.py``'s.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.mutation import mutants
from benchmarks.mutation.cpp_tokens import CLOSER, Cpp
from benchmarks.mutation.mutants import Mutant, Piece
from benchmarks.mutation.triton_operators import Python

_TORCHS_OWN = re.compile(r"^(?:void )?at::|^(?:void )?(?:cutlass|cublas|cudnn)|^Mem(?:cpy|set)\b")
_BRANCHES = ("if", "else", "for", "while", "do", "switch", "try", "catch")
_WAYS_OUT = ("return", "goto", "throw")
_ANNOTATIONS = ("__launch_bounds__", "__attribute__", "__align__", "__maxnreg__", "__cluster_dims__")


@dataclass(frozen=True)
class Function:
    """A function with a body. ``start`` and ``end``: its characters in the piece, head and body."""

    name: str
    kind: str
    """kernel (can be launched), device (called by kernels), host."""
    start: int
    end: int
    needs: tuple[str, ...] = ()
    """Of a host function: kernels that it launches whenever it is called."""


def live(every: Iterable[Mutant], source: str, launched: Iterable[str] | None) -> list[Mutant]:
    """A parent's mutants without those in dead code, in the order given; all of them where ``launched`` is None.

    ``launched``: names as a profiler gives them, mangled or not.
    """
    if launched is None:
        return list(every)
    names = set(launched)
    dead = [dead_ranges(piece, names) for piece in mutants.pieces(source)]
    return [m for m in every if not any(start <= m.site.start < end for start, end in dead[m.piece])]


def dead_ranges(piece: Piece, launched: Iterable[str]) -> list[tuple[int, int]]:
    """(start, end) in a piece's text, in its order, of every function that is dead."""
    found = cpp_functions(piece.text) if piece.language == "c++" else triton_functions(piece.text)
    names = _launched_names(launched)
    kernels = {f.name for f in found if f.kind == "kernel"}
    words = {f: set(re.findall(r"\w+", piece.text[f.start : f.end])) for f in found}
    alive = {f for f in found if f.kind != "host" and f.name in names}
    alive |= {f for f in found if f.kind == "host" and all(n in names or n not in kernels for n in f.needs)}
    while True:
        used = _outside(piece.text, found).union(*(words[f] for f in alive))
        more = {f for f in found if f.kind == "device" and f.name in used} - alive
        if not more:
            break
        alive |= more
    return sorted((f.start, f.end) for f in found if f not in alive)


def _outside(text: str, found: Iterable[Function]) -> set[str]:
    """Words of a piece's text that are in none of its functions."""
    rest, at = [], 0
    for function in sorted(found, key=lambda f: f.start):
        rest.append(text[at : function.start])
        at = max(at, function.end)
    return set(re.findall(r"\w+", " ".join([*rest, text[at:]])))


def _launched_names(launched: Iterable[str]) -> set[str]:
    """Every name that may be a launched function's own: of ``void tile<4>(float*)`` tile and the types' names."""
    names: set[str] = set()
    for one in launched:
        if _TORCHS_OWN.search(one):
            continue
        names |= set(re.findall(r"[A-Za-z_]\w*", one))
        if one.startswith("_Z"):
            names |= set(_mangled(one))
        # Triton of before 3.0 puts the kinds of its arguments behind the name: softmax_kernel_0d1d2de.
        names |= {match.group(1) for match in re.finditer(r"\b([A-Za-z_]\w*?)_(?:\d+d?[ec]*)+\b", one)}
    return names


def _mangled(name: str) -> Iterable[str]:
    """Identifiers of an Itanium-mangled name: each stands behind its length. Too many rather than too few."""
    for match in re.finditer(r"\d+", name):
        for start in range(match.start(), match.end()):  # _Z112k: length 12 behind a 1 is read as well
            length, first = int(name[start : match.end()]), match.end()
            if 0 < length <= len(name) - first:
                yield name[first : first + length]


# --- C++ and CUDA ---------------------------------------------------------------------------------------------------
def cpp_functions(text: str) -> list[Function]:
    """Functions with a body, as far as they are kernels, device functions, or host functions that launch one."""
    cpp, found = Cpp(text), []
    for k, token in enumerate(cpp.tokens):
        if token.kind != "name" or token.text not in ("__global__", "__device__"):
            continue
        if cpp[k] == "__device__" and "__global__" in (cpp[k - 1], cpp[k + 1]):
            continue
        if "__host__" in (cpp[k - 1], cpp[k + 1], cpp[k + 2]):
            continue  # the host may call it
        opened = _parameters(cpp, k + 1)
        body = _body(cpp, opened) if opened is not None else None
        if opened is None or body is None or opened == k + 1 or cpp.tokens[opened - 1].kind != "name":
            continue  # a lambda, an announcement, a variable
        kind = "kernel" if cpp[k] == "__global__" else "device"
        found.append(Function(cpp[opened - 1], kind, token.start, cpp.tokens[cpp.match[body]].end))
    return [*found, *_launchers(cpp, found)]


def _parameters(cpp: Cpp, k: int) -> int | None:
    """The bracket that opens a function's parameters, from behind ``__global__``; None for what is no function."""
    while k < len(cpp) and cpp[k] not in (";", "{", "}", "=", "operator"):
        if cpp[k] == "(":
            if cpp[k - 1] not in _ANNOTATIONS:
                return k if k in cpp.match else None
            k = cpp.match.get(k, len(cpp))
        k += 1
    return None


def _body(cpp: Cpp, opened: int) -> int | None:
    """The brace that opens a function's body; None for an announcement."""
    k = cpp.match[opened] + 1
    while cpp[k] in ("const", "noexcept", "override"):
        k += 1
    return k if cpp[k] == "{" and k in cpp.match else None


def _launchers(cpp: Cpp, known: Sequence[Function]) -> list[Function]:
    """Host functions at the outermost level that launch a kernel whenever they are called."""
    found, k = [], 0
    while k < len(cpp):
        if cpp[k] != "{" or k not in cpp.match:
            k += 1
            continue
        close = cpp.match[k]
        opened = cpp.match.get(k - 1) if cpp[k - 1] == ")" else None
        if cpp[k - 2] in ("namespace", "C") or cpp[k - 1] in ("namespace", '"C"'):
            k += 1  # what is inside is at the outermost level as well
            continue
        token = cpp.tokens[k]
        if opened is not None and opened > 0 and not any(f.start <= token.start < f.end for f in known):
            needs = _launched_always(cpp, k, close)
            if needs and cpp.tokens[opened - 1].kind == "name":
                found.append(
                    Function(cpp[opened - 1], "host", cpp.tokens[opened - 1].start, cpp.tokens[close].end, needs)
                )
        k = close + 1
    return found


def _launched_always(cpp: Cpp, opened: int, close: int) -> tuple[str, ...]:
    """Kernels whose ``name<<<`` stands in a body itself, in no branch, with no way out of the body in front of it."""
    names, k = [], opened + 1
    while k < close:
        last = k
        if cpp[k] in _BRANCHES:
            while cpp[last + 1] in ("(", "constexpr"):
                last = cpp.match.get(last + 1, last + 1)
            if cpp[last + 1] != "{" and cpp[last + 1] not in _BRANCHES:
                last = cpp.statement_end(last + 1) or close
        elif cpp[k] in CLOSER and k in cpp.match:
            last = cpp.match[k]
        elif cpp[k] == "<<<":
            name = _name_before(cpp, k)
            names += [name] if name is not None else []
        if any(cpp[j] in _WAYS_OUT for j in range(k, last + 1)):
            break
        k = last + 1
    return tuple(names)


def _name_before(cpp: Cpp, k: int) -> str | None:
    """Of ``name<<<`` and of ``name<4, float><<<``."""
    j = k - 1
    if cpp[j] == ">":
        depth = 0
        while j > 0:
            depth += (cpp[j] == ">") - (cpp[j] == "<")
            j -= 1
            if depth == 0:
                break
    return cpp[j] if 0 <= j < len(cpp) and cpp.tokens[j].kind == "name" else None


# --- Triton -------------------------------------------------------------------------------------------------
def triton_functions(text: str) -> list[Function]:
    """Jitted functions: a kernel where the rest of the file does no more with its name than launch it.

    Raises SyntaxError for a source that is no Python.
    """
    python = Python(text)
    jitted = list(python.kernels())
    inside = {id(node) for function in jitted for node in ast.walk(function)}
    launched = {
        id(node.value)
        for node in ast.walk(python.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and id(node) not in inside
    }
    handed = {  # to another kernel, say: which of its names will call it nobody can tell
        node.id
        for node in ast.walk(python.tree)
        if isinstance(node, ast.Name) and id(node) not in inside and id(node) not in launched
    }
    called = {node.id for function in jitted for node in ast.walk(function) if isinstance(node, ast.Name)}
    found = []
    for function in jitted:
        place = python.put(function, "")
        kind = "device" if function.name in called else "kernel"
        if function.name not in handed:
            found.append(Function(function.name, kind, place.start, place.end))
    return found
