"""Does a candidate ask for extensions only while it is imported? Torch-free; the source is parsed, never run.

Then constructing it and calling it on fake tensors finds nothing more to build, and that costs what torch's tracing
machinery costs to import: some 870 modules, most of what a compile stage does beside compiling. Who wants to hide a
request from this can: it is then built in the gate, at the candidate's own expense.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_BUILDERS = frozenset(("load", "load_inline"))
_MODULE = "cpp_extension"
_MAY_HIDE_ONE = frozenset(
    "exec eval compile __import__ importlib import_module runpy getattr globals vars locals __dict__ builtins".split()
)
"""Names with which a function could reach torch's builder without naming it."""
_OTHERS = frozenset(("CUDAExtension", "CppExtension", "BuildExtension", "setup", "_jit_compile", "include_paths"))


def only_at_import(source: str) -> bool:
    """Whether every mention of torch's extension builder is a call outside functions, or what such a call needs.

    A source that does not parse, or that could reach the builder in ways which are not looked into, gives False.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = frozenset(id(call.func) for call in _calls_at_import(tree))
    builders = set(_BUILDERS)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(_MODULE):
            if any(alias.name not in _BUILDERS for alias in node.names):
                return False
            builders.update(alias.asname or alias.name for alias in node.names)
    return not any(_may_build_later(node, called, builders) for node in ast.walk(tree))


def _calls_at_import(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that importing the module makes by itself: those outside functions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Call):
            yield node
        pending.extend(ast.iter_child_nodes(node))


def _may_build_later(node: ast.AST, called: frozenset[int], builders: set[str]) -> bool:
    """Whether this node could be, or hand on, a request that is made after the import."""
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in _MAY_HIDE_ONE or name in _OTHERS:
            return not _harmless(node)
        return name in builders and id(node) not in called
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # Sources in C++ may call anything "load"; a name that leads to the builder is a word by itself.
        return re.search(rf"\b(?:{_MODULE}|load_inline)\b", node.value) is not None
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        return any(part in _MAY_HIDE_ONE for name in names for part in name.split("."))
    return False


def _harmless(node: ast.Name | ast.Attribute) -> bool:
    """``torch.compile`` and ``re.compile`` build no extension."""
    return isinstance(node, ast.Attribute) and node.attr == "compile"
