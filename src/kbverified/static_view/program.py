"""A module's syntax tree as tables: what its imports mean, and what is bound to each name, class and attribute.

Everything is by name and blind to control flow: two values that a name may have are both its values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Method calls that put their arguments into what they are called on.
_STORING = ("append", "extend", "insert", "add", "setdefault", "update", "add_module", "register_module")


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it as they stand in the text, without recursion: a source is as deep as it likes."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


@dataclass(frozen=True)
class Value:
    """An expression that something is bound to, and the function it stands in."""

    node: ast.expr
    owner: Function | None
    cls: ClassInfo | None


@dataclass(eq=False)
class ClassInfo:
    """A class: its methods, and the values of its attributes, whether set in its body or through ``self``."""

    node: ast.ClassDef
    methods: dict[str, list[Function]] = field(default_factory=dict)
    attributes: dict[str, list[Value]] = field(default_factory=dict)


class Program:
    """The tables of one module. Raises what ``ast.parse`` raises."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.imports: dict[str, str] = {}
        self.functions: dict[str, list[Function]] = {}
        self.classes: dict[str, ClassInfo] = {}
        self.values: dict[str, list[Value]] = {}
        """Values of names at module level, also those set through ``global``."""
        self.inner: dict[str, list[Value]] = {}
        """Values of names that are local to some function."""
        self.locals: dict[ast.AST, set[str]] = {}
        self.class_of: dict[ast.AST, ClassInfo] = {}
        self.globals: dict[ast.AST, set[str]] = {}
        self._fill()

    # --- looking up ---------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str | None:
        """``nn.Linear`` -> ``torch.nn.Linear``, by the imports; None where the root is no imported name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return None
        return ".".join([self.imports[node.id], *reversed(parts)])

    def owner(self, node: ast.AST) -> Function | None:
        """The innermost function that a node stands in."""
        above = self.parents.get(node)
        while above is not None and not isinstance(above, FUNCTIONS):
            above = self.parents.get(above)
        return above

    def outermost(self, function: Function) -> Function:
        """The function that a nested function stands in, itself where it is not nested."""
        while (above := self.owner(function)) is not None:
            function = above
        return function

    def bases(self, info: ClassInfo) -> Iterator[ClassInfo]:
        """A class and those of its bases that the module defines."""
        seen: set[int] = set()
        waiting = [info]
        while waiting:
            here = waiting.pop(0)
            if id(here) in seen:
                continue
            seen.add(id(here))
            yield here
            names = [base.id for base in here.node.bases if isinstance(base, ast.Name)]
            waiting += [self.classes[name] for name in names if name in self.classes]

    def root_class(self, name: str) -> ClassInfo | None:
        """The class that a module-level name stands for, through plain aliases."""
        for _ in range(8):
            if name in self.classes:
                return self.classes[name]
            last = self.values.get(name, [])[-1:]
            if not last or not isinstance(last[0].node, ast.Name):
                return None
            name = last[0].node.id
        return None

    # --- filling ------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        order = list(in_order(self.tree))
        for node in order:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        for node in order:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.ClassDef):
                info = ClassInfo(node)
                self.class_of[node] = info
                self.classes[node.name] = info
            elif isinstance(node, FUNCTIONS):
                self._function(node)
            elif isinstance(node, ast.Global) and (owner := self.owner(node)) is not None:
                self.globals.setdefault(owner, set()).update(node.names)
        for node in order:
            self._bindings(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.partition(".")[0]
                self.imports[alias.asname or head] = alias.name if alias.asname else head
        else:
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"

    def _function(self, node: Function) -> None:
        above = self.parents[node]
        while not isinstance(above, ast.ClassDef | ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            above = self.parents[above]
        if isinstance(above, ast.ClassDef):
            self.class_of[node] = self.class_of[above]
            self.class_of[above].methods.setdefault(node.name, []).append(node)
        else:
            self.functions.setdefault(node.name, []).append(node)
        a = node.args
        names = {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
        names |= {arg.arg for arg in (a.vararg, a.kwarg) if arg is not None}
        self.locals[node] = names

    def enclosing_class(self, node: ast.AST) -> ClassInfo | None:
        """The class whose body or method a node stands in."""
        above: ast.AST | None = node
        while above is not None and above not in self.class_of:
            above = self.parents.get(above)
        return self.class_of[above] if above is not None else None

    def _bindings(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            if node.value is not None:
                self._bind(node.target, node.value)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.Call):
            self._storing_call(node)

    def _storing_call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in _STORING:
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._bind(called.value, argument)
        named = isinstance(called, ast.Name) and called.id == "setattr"
        registers = isinstance(called, ast.Attribute) and called.attr.startswith("register_")
        place = node.args[1:3] if named else node.args[:2] if registers else []
        if len(place) == 2 and isinstance(place[0], ast.Constant) and isinstance(place[0].value, str):
            info = self.enclosing_class(node)
            if info is not None:
                self._attribute(info, place[0].value, place[1])

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        waiting = [target]
        while waiting:
            target = waiting.pop()
            if isinstance(target, ast.Tuple | ast.List):
                waiting.extend(target.elts)
            elif isinstance(target, ast.Starred | ast.Subscript):
                waiting.append(target.value)
            elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                info = self.enclosing_class(target)
                if info is not None and target.value.id in ("self", "cls", self.first_argument(target)):
                    self._attribute(info, target.attr, value)
                elif target.value.id in self.classes:
                    self._attribute(self.classes[target.value.id], target.attr, value)
                else:
                    self._name(target.value.id, value)
            elif isinstance(target, ast.Name):
                self._name(target.id, value)

    def first_argument(self, node: ast.AST) -> str | None:
        """The name under which the method that a node stands in knows its object; None outside of methods."""
        function = self.owner(node)
        if function is None:
            return None
        arguments = (*function.args.posonlyargs, *function.args.args)
        return arguments[0].arg if arguments and function in self.class_of else None

    def _attribute(self, info: ClassInfo, name: str, value: ast.expr) -> None:
        info.attributes.setdefault(name, []).append(Value(value, self.owner(value), info))

    def _name(self, name: str, value: ast.expr) -> None:
        owner = self.owner(value)
        info = self.enclosing_class(value)
        kept = Value(value, owner, info)
        if owner is None and info is not None:
            info.attributes.setdefault(name, []).append(kept)
        elif owner is None or name in self.globals.get(owner, ()):
            self.values.setdefault(name, []).append(kept)
        else:
            self.locals[owner].add(name)
            self.inner.setdefault(name, []).append(kept)
