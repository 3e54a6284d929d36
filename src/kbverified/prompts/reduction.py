"""A problem's module down to Model and what Model is made of, by its syntax tree.

Kept: the class, the functions and classes that it reaches, the imports that these use. Gone: every other statement of
the module, docstrings, comments, assertions, annotations with values, defaults that the given arguments override, class
attributes and methods that nothing reads. What is left are the literals that the computation itself evaluates.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator

from kbverified.prompts import overridden
from kbverified.prompts.hidden import refusal
from kbverified.prompts.module import Definition, Function, Import, Known, Module

INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")
_TEXT_METHODS = frozenset({"__repr__", "__str__", "extra_repr", "_get_name"})
"""They compute nothing and may spell anything out."""


class _Strip(ast.NodeTransformer):
    """Takes away what computes nothing, and the defaults that are always overridden."""

    def __init__(self, module: Module, known: Known):
        self.module, self.known = module, known
        self.place: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            raise refusal(self.module.path, node.lineno, "an assertion binds a name")

    def visit_Global(self, node: ast.Global) -> None:
        raise refusal(self.module.path, node.lineno, f"what Model runs binds the module's {', '.join(node.names)}")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self._annotation(node.annotation):
            return self.generic_visit(node)
        if self.place and self.place[-1] in self.known.with_fields:
            raise refusal(self.module.path, node.lineno, f"a field of {self.place[-1]} has an annotation with a value")
        if node.value is None:
            return None
        bare = ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno, col_offset=node.col_offset)
        return self.generic_visit(bare)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = self._annotation(node.annotation)
        node.type_comment = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.visit_FunctionDef(node)

    def visit_FunctionDef(self, node: Function) -> ast.AST:
        node.returns = self._annotation(node.returns)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(default)):
                raise refusal(self.module.path, default.lineno, "a default value binds a name")
        given = self.known.given.get(".".join([*self.place, node.name]))
        if given is not None:
            overridden.drop_first(node.args, given + 1)  # self
        _drop_dead_stores(node)
        return self._definition(node)

    def _definition(self, node: Definition) -> ast.AST:
        self.place.append(node.name)
        self.generic_visit(node)
        self.place.pop()
        node.body = node.body or [ast.Pass()]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def _annotation(self, node: ast.expr | None) -> ast.expr | None:
        """The annotation where it is made of names only, all of which are there for certain."""
        if node is None:
            return None
        there = {*self.module.imports, *self.module.definitions, *dir(builtins)} - self.module.removed
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in there:
                return None
            if isinstance(inner, ast.Constant) and inner.value is not None:
                return None
            if isinstance(inner, ast.NamedExpr | ast.Call | ast.Lambda):
                return None
        return node


def _is_plain_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_plain_target, node.elts))
    return isinstance(node, ast.Name)


def _drop_dead_stores(function: Function) -> None:
    """Without ``name = literal`` for names that the function never reads (a size left over from a test)."""
    read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    read |= {n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    outer = {name for n in ast.walk(function) if isinstance(n, ast.Nonlocal | ast.Global) for name in n.names}

    def dead(node: ast.stmt) -> bool:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            return False
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not all(map(_is_plain_target, targets)):
            return False
        names = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        try:
            ast.literal_eval(node.value)
        except ValueError:
            return False
        return not names & (read | outer)

    function.body = [node for node in function.body if not dead(node)]


# --- what is reached ----------------------------------------------------------------------------------------


def reduce(module: Module, known: Known) -> list[ast.stmt]:
    """The statements that are kept, imports first, the rest in the file's order. Changes the module's tree.

    Raises InputBlindError where what is kept reads a name that is not.
    """
    strip = _Strip(module, known)
    kept: dict[str, ast.stmt] = {}
    pending = ["Model"]
    classes: dict[str, list[ast.stmt]] = {}
    while pending:
        for name in pending:
            node = _kept_node(module, name)
            if isinstance(node, Definition):
                node = strip.visit(node)
            if isinstance(node, ast.ClassDef):
                classes[name], node.body = node.body, []
            kept[name] = node
        _fill_classes(module, known, kept, classes)
        pending = [name for name in _global_reads(kept) if name not in kept and _is_bound(module, known, name)]
    for node in kept.values():
        if isinstance(node, ast.ClassDef) and not node.body:
            node.body = [ast.Pass()]
    overridden.drop_in_helpers(kept.values())
    order = sorted(kept.values(), key=lambda node: (not isinstance(node, Import), node.lineno))
    return [node for n, node in enumerate(order) if not any(node is earlier for earlier in order[:n])]


def _is_bound(module: Module, known: Known, name: str) -> bool:
    """False for builtins and for what nobody binds: reading that raises in the problem, too."""
    return name in known.names or name in {*module.definitions, *module.aliases, *module.imports, *module.removed}


def _kept_node(module: Module, name: str) -> ast.stmt:
    known = {**module.definitions, **module.aliases, **module.imports}
    if name in known and name not in module.removed and name not in INPUT_FUNCTIONS:
        return known[name]
    if name == "Model":
        what = "Model is bound by more, or by something else, than one plain class statement at the top level"
    else:
        what = f"Model, or what it calls, reads the module's {name}"
    raise refusal(module.path, module.line_of(name), what)


def _fill_classes(module: Module, known: Known, kept: dict[str, ast.stmt], classes: dict[str, list[ast.stmt]]) -> None:
    """Give kept classes the methods and attributes that are read, by whatever name they are read from."""
    grown = True
    while grown:
        grown = False
        read = _attribute_reads(kept.values())
        for name, body in classes.items():
            owner = kept[name]
            assert isinstance(owner, ast.ClassDef)
            wanted = [node for node in body if _is_wanted(module, known, owner, node, read)]
            if len(wanted) > len(owner.body):
                owner.body, grown = wanted, True


def _is_wanted(module: Module, known: Known, owner: ast.ClassDef, node: ast.stmt, read: set[str]) -> bool:
    if isinstance(node, Definition):
        implicit = node.name in known.module_methods or (node.name.startswith("__") and node.name.endswith("__"))
        return (implicit or node.name in read) and node.name not in _TEXT_METHODS
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return owner.name in known.with_fields or bool(
            read & {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        )
    if isinstance(node, ast.Pass):
        return False
    raise refusal(module.path, node.lineno, f"a class holds a statement of kind {type(node).__name__}")


def _attribute_reads(nodes: Iterable[ast.AST]) -> set[str]:
    """Attributes that are read, names read in class bodies, and strings that getattr may be given."""
    read: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute):
                read.add(inner.attr)
            elif isinstance(inner, ast.ClassDef):
                read |= _read_in_body(inner)
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.isidentifier():
                read.add(inner.value)
    return read


def _read_in_body(owner: ast.ClassDef) -> set[str]:
    """Names that a class's statements read, and the heads of its methods: within a method a name is no attribute."""
    heads: list[ast.AST] = []
    for node in owner.body:
        if isinstance(node, Function):
            heads += [node.args, *node.decorator_list, *filter(None, [node.returns])]
        else:
            heads.append(node)
    return {n.id for head in heads for n in ast.walk(head) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _global_reads(kept: dict[str, ast.stmt]) -> list[str]:
    """Names of the module that kept statements read, as Python's own scoping sees it."""
    text = _unparse_padded(kept)
    names: dict[str, None] = {}
    for table in _tables(symtable.symtable(text, "<kept>", "exec")):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
                names[symbol.get_name()] = None
    return list(names)


def _unparse_padded(kept: dict[str, ast.stmt]) -> str:
    """Source of kept statements while a class may still be empty."""
    parts = []
    for node in kept.values():
        if isinstance(node, ast.ClassDef) and not node.body:
            node = ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": [ast.Pass()]})
        parts.append(ast.unparse(ast.fix_missing_locations(node)))
    return "\n".join(parts)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
