"""What ``ModelNew.forward`` reaches by names: functions, methods, classes, kernels, extensions, torch's operators.

Code is *run* when forward may call it. An expression is *held* when something that forward uses is bound to it: a
class that is called there makes an object whose forward may run later, a function that is called there makes what it
returns, and a name that stands there may be called later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from kbverified.static_view.kernels import Extension, PythonKernel
from kbverified.static_view.program import FUNCTIONS, ClassInfo, Function, Program, Value, in_order

_ALWAYS_CALLED = ("forward", "__call__", "__getattr__", "__getattribute__", "setup_context")
_NOT_IN_FORWARD = ("backward", "vjp", "jvp")


class Reach:
    """The closure over a program of what some code may run. Start it with ``enter`` or ``run``, then ``finish``."""

    def __init__(
        self, program: Program, kernels: Mapping[ast.AST, PythonKernel], extensions: Mapping[ast.AST, Extension]
    ) -> None:
        self.program = program
        self.all_kernels, self.all_extensions = kernels, extensions
        self.run_nodes: dict[ast.AST, None] = {}
        """Functions that may run, and single statements that were entered, in the order in which they were found."""
        self.held_nodes: dict[ast.AST, None] = {}
        self.attributes: set[str] = set()
        """Names of attributes that running or held code reads."""
        self.torch_ops: set[str] = set()
        """``ns.name`` of every ``torch.ops.ns.name``."""
        self.kernels: dict[ast.AST, PythonKernel] = {}
        self.extensions: dict[ast.AST, Extension] = {}
        self.classes: dict[int, ClassInfo] = {}
        self._seen_methods: set[tuple[int, str]] = set()

    # --- starting -----------------------------------------------------------------------------------------

    def enter(self, info: ClassInfo) -> Reach:
        """All that calling an object of a class runs."""
        self._hold_class(info)
        self._member(info, "forward")
        return self.finish()

    def run(self, nodes: Iterable[ast.AST]) -> Reach:
        """All that some statements or expressions run."""
        for node in nodes:
            self._run(node)
        return self.finish()

    def finish(self) -> Reach:
        """Methods are found by the names that running code reads; what they run may read more names."""
        known = -1
        while known != len(self._seen_methods):
            known = len(self._seen_methods)
            for info in list(self.classes.values()):
                for base in self.program.bases(info):
                    for name in base.methods.keys() & self.attributes - {*_NOT_IN_FORWARD, "__init__"}:
                        self._member(info, name)
        self._library_functions()
        return self

    def _library_functions(self) -> None:
        """Functions registered under a name with torch.library, called as ``torch.ops.ns.name``."""
        for function in [f for several in self.program.functions.values() for f in several]:
            for decorator in function.decorator_list:
                named = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
                path = isinstance(named, ast.Constant) and isinstance(named.value, str) and named.value
                if path and path.split("(")[0].replace("::", ".") in self.torch_ops and function not in self.run_nodes:
                    self._run(function)
                    self.finish()

    # --- code that runs -----------------------------------------------------------------------------------

    def _run(self, node: ast.AST) -> None:
        if node in self.all_kernels:
            self.kernels[node] = self.all_kernels[node]
            return
        if node in self.run_nodes:
            return
        self.run_nodes[node] = None
        function = node if isinstance(node, FUNCTIONS) else self.program.owner(node)
        for part in self.parts(node):
            self._read(part, function, node)
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
                info = self.program.classes.get(part.func.id)
                if info is not None:
                    for name in ("__init__", "__new__", "__post_init__"):
                        self._member(info, name)

    def parts(self, node: ast.AST) -> Iterable[ast.AST]:
        """The nodes below one, without those of a kernel's own body."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if part is not node and part in self.all_kernels:
                continue
            yield part
            waiting.extend(reversed(list(ast.iter_child_nodes(part))))

    def _read(self, part: ast.AST, function: Function | None, scope: ast.AST) -> None:
        """One node of code that runs or is held: what it names."""
        if isinstance(part, ast.Call) and part in self.all_extensions:
            self.extensions[part] = self.all_extensions[part]
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            self._name(part.id, function)
        elif isinstance(part, ast.Attribute):
            self._attribute(part)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "getattr":
            names = [a.value for a in part.args[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            self.attributes.update(names)
            for name in names:
                self._own(part, part.args[0], name)

    def _attribute(self, part: ast.Attribute) -> None:
        self.attributes.add(part.attr)
        path = self.program.dotted(part)
        if path is not None and path.startswith("torch.ops."):
            self.torch_ops.add(path.removeprefix("torch.ops."))
        self._own(part, part.value, part.attr)

    def _own(self, part: ast.AST, value: ast.expr, name: str) -> None:
        """``self.name``, ``super().name`` or ``Class.name``."""
        info = None
        if isinstance(value, ast.Name):
            first = self.program.first_argument(part)
            info = self.program.enclosing_class(part) if value.id in ("self", "cls", first) else None
            info = info or self.program.classes.get(value.id)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            info = self.program.enclosing_class(part)
        if info is not None:
            self._member(info, name)
            for other in [c for c in self.classes.values() if c is not info]:  # methods of a base see its heirs' values
                if any(base is info for base in self.program.bases(other)):
                    self._member(other, name)

    def _member(self, info: ClassInfo, name: str) -> None:
        if (id(info), name) in self._seen_methods:
            return
        self._seen_methods.add((id(info), name))
        for base in self.program.bases(info):
            for method in base.methods.get(name, ()):
                self._run(method)
            for value in base.attributes.get(name, ()):
                self._hold(value)

    def _name(self, name: str, function: Function | None) -> None:
        local = function is not None and self._is_local(name, function)
        for found in self.program.functions.get(name, ()):
            self._run(found)
        if name in self.program.classes:
            self._hold_class(self.program.classes[name])
        if not local:
            for value in self.program.values.get(name, []) or self.program.inner.get(name, []):
                self._hold(value)

    def _is_local(self, name: str, function: Function) -> bool:
        return name in self.program.locals[function] and name not in self.program.globals.get(function, ())

    # --- what is held -------------------------------------------------------------------------------------

    def _hold_class(self, info: ClassInfo) -> None:
        if id(info) in self.classes:
            return
        self.classes[id(info)] = info
        for base in self.program.bases(info):
            self.classes.setdefault(id(base), base)
        for name in _ALWAYS_CALLED:
            self._member(info, name)

    def _hold(self, value: Value) -> None:
        self._hold_node(value.node, value.owner)

    def _hold_node(self, node: ast.AST, owner: Function | None) -> None:
        if node in self.held_nodes or node in self.run_nodes:
            return
        self.held_nodes[node] = None
        factories = {
            id(call.func): call.func.id
            for call in in_order(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        methods = {id(c.func): c.func for c in in_order(node) if isinstance(c, ast.Call)}
        for part in self.parts(node):
            if isinstance(part, ast.Name) and id(part) in factories and part.id in self.program.functions:
                for function in self.program.functions[part.id]:
                    self._returns(function)
            elif isinstance(part, ast.Attribute) and id(part) in methods and self._own_methods(part):
                for function in self._own_methods(part):
                    self._returns(function)
            else:
                self._read(part, owner, node)
            if isinstance(part, ast.Name) and owner is not None and self._is_local(part.id, owner):
                for value in self.program.inner.get(part.id, []):
                    if value.owner is owner:
                        self._hold(value)

    def _own_methods(self, part: ast.Attribute) -> list[Function]:
        info = self.program.enclosing_class(part)
        if info is None or not isinstance(part.value, ast.Name) or part.value.id not in ("self", "cls"):
            return []
        return [method for base in self.program.bases(info) for method in base.methods.get(part.attr, ())]

    def _returns(self, function: Function) -> None:
        """A function that was called to make something: what it returns is held."""
        if function in self.all_kernels:
            return
        for node in in_order(function):
            if isinstance(node, ast.Return) and node.value is not None:
                self._hold_node(node.value, function)
