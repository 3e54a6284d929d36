"""A problem's module, taken apart: its statements by what may be kept of them, and what running it told."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from kbverified.module_names import module_level_names
from kbverified.prompts.hidden import TRIVIAL, refusal

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Known:
    """What running the module tells about it, which reading could only guess."""

    given: dict[str, int]
    """How many arguments a method is always called with, by its qualified name: ``Model.__init__``."""
    names: frozenset[str]
    """Names that the module has."""
    callables: frozenset[str]
    """Those of them that are bound to something callable."""
    module_methods: frozenset[str]
    """Names of torch.nn.Module, whose overrides are called by nobody that is in the file."""
    with_fields: frozenset[str] = frozenset()
    """Names of classes none of whose attributes can be left out (fields.py)."""


@dataclass
class Module:
    """The statements of a module, by what may be kept of them."""

    path: Path
    tree: ast.Module
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    aliases: dict[str, ast.Assign] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    """Names that statements bind which are not kept."""

    @classmethod
    def of(cls, path: Path, text: str, known: Known) -> Module:
        """Raises InputBlindError where a star import hides which names there are."""
        self = cls(path, ast.parse(text, str(path)))
        for node in self.tree.body:
            if isinstance(node, Import):
                self._import(node)
            elif isinstance(node, Definition):
                self._bind(node.name, self.definitions, node)
            elif (name := _alias(node)) and name in known.callables:
                assert isinstance(node, ast.Assign)
                self._bind(name, self.aliases, node)
            else:
                self.removed |= module_level_names(ast.Module([node], []))
        for inner in ast.walk(self.tree):
            if isinstance(inner, ast.Global):
                self.removed.update(inner.names)
        return self

    def _import(self, node: Import) -> None:
        for alias in node.names:
            if alias.name == "*":
                raise refusal(self.path, node.lineno, "a star import hides which names are the module's own")
            single = type(node)(**{**dict(ast.iter_fields(node)), "names": [alias]}, lineno=node.lineno, col_offset=0)
            name = (alias.asname or alias.name).split(".")[0]
            previous = self.imports.get(name)
            if previous is None or ast.unparse(previous) == ast.unparse(single):
                self.imports[name] = single
            elif isinstance(node, ast.Import) and isinstance(previous, ast.Import):  # import a.b beside import a.c
                self.imports[name] = ast.Import(names=[*previous.names, alias], lineno=node.lineno, col_offset=0)
            else:
                self.removed.add(name)

    def line_of(self, name: str) -> int | None:
        """Where a definition reads a name first, else where it stands first; None: nowhere by that name."""
        nodes = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == name]
        reads = [n.lineno for d in self.definitions.values() for n in ast.walk(d) if n in nodes and _is_read(n)]
        return min(reads or [node.lineno for node in nodes], default=None)

    def _bind(self, name: str, where: dict, node: ast.stmt) -> None:
        if name in self.definitions or name in self.aliases or name in self.imports:
            self.removed.add(name)  # bound twice: which one is read is not for reading to decide
        where[name] = node


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _alias(node: ast.stmt) -> str | None:
    """The name of ``name = function(...)`` or ``name = other`` without any value of its own in it."""
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
        return None
    for inner in ast.walk(node.value):
        if isinstance(inner, ast.Constant) and not (inner.value is None or inner.value in TRIVIAL):
            return None
        if not isinstance(inner, ast.Call | ast.Name | ast.Attribute | ast.Constant | ast.keyword | ast.expr_context):
            return None
    return node.targets[0].id
