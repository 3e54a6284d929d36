"""Torch operators that running code calls: as functions, as modules, as methods and operators of tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kbverified.static_view import operators
from kbverified.static_view.program import FUNCTIONS, ClassInfo, Function, Program, in_order
from kbverified.static_view.reach import Reach

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.FloorDiv: "floordivide"}
# Attributes and methods that show that a name stands for a tensor.
_SHOWS_TENSOR = frozenset("contiguous is_cuda dtype device is_contiguous data_ptr numel requires_grad ndim".split())
# Of these a tensor gives no tensor.
_NO_TENSOR = frozenset(
    "shape size dim ndim numel dtype device item stride is_cuda tolist element_size data_ptr".split()
)
_SCALARS = ("int", "float", "bool", "str", "tuple", "list", "Tuple", "List")


class Operators:
    """Finds operators in code that runs. ``of`` gives them with the lines where they are called."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._tensors: dict[ast.AST, set[str]] = {}

    def of(self, reach: Reach) -> dict[str, int]:
        """Canonical operator -> a line that calls it, over all that runs."""
        found: dict[str, int] = {}
        for node in reach.run_nodes:
            for name, line in self.below(node, reach):
                found.setdefault(name, line)
        for info in reach.classes.values():
            if "forward" not in info.methods:
                for base in info.node.bases:
                    inherited = operators.module_of_dotted(self.program.dotted(base) or "")
                    if inherited is not None:
                        found.setdefault(inherited, info.node.lineno)
        return found

    def below(self, node: ast.AST, reach: Reach) -> Iterator[tuple[str, int]]:
        """Operators below one node, without following calls."""
        function = node if isinstance(node, FUNCTIONS) else self.program.owner(node)
        tensors = self._tensor_names(function) if function is not None else set()
        for part in reach.parts(node):
            yield from ((name, part.lineno) for name in self._operator(part, tensors))  # type: ignore[attr-defined]

    def _operator(self, part: ast.AST, tensors: set[str]) -> Iterator[str]:
        if isinstance(part, ast.Call):
            name = self._called(part, tensors)
            if name is not None:
                yield name
        if isinstance(part, ast.BinOp | ast.AugAssign):
            sides = (part.left, part.right) if isinstance(part, ast.BinOp) else (part.target, part.value)
            if isinstance(part.op, ast.MatMult):
                yield "matmul"
            elif type(part.op) in _BINARY and any(self._is_tensor(side, tensors) for side in sides):
                yield _BINARY[type(part.op)]
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub) and self._is_tensor(part.operand, tensors):
            yield "neg"
        elif isinstance(part, ast.Attribute):
            yield from self._module(part)

    def _called(self, call: ast.Call, tensors: set[str]) -> str | None:
        path = self.program.dotted(call.func)
        if path is not None:
            return operators.of_dotted(path) if not operators.module_of_dotted(path) else None
        if not isinstance(call.func, ast.Attribute):
            return None
        name, value = call.func.attr, call.func.value
        on_itself = isinstance(value, ast.Name) and value.id in ("self", "cls", "tl", "ctx")
        if operators.is_tensor_method(name) and not on_itself and not self._is_extension_call(call):
            return operators.canonical(name)
        if operators.is_ambiguous_method(name) and self._is_tensor(value, tensors):
            return operators.canonical(name)
        return None

    def _is_extension_call(self, call: ast.Call) -> bool:
        """``ext.relu(x)``: the method is called on a name that is no tensor but something the module made."""
        assert isinstance(call.func, ast.Attribute)
        value = call.func.value
        if isinstance(value, ast.Name):
            return value.id in self.program.values or value.id in self.program.classes
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            info = self.program.enclosing_class(call)
            values = [v for b in self.program.bases(info) for v in b.attributes.get(value.attr, ())] if info else []
            made = [v.node for v in values if isinstance(v.node, ast.Name | ast.Call | ast.Attribute)]
            return any(not (self._path_of(node) or "").startswith("torch.") for node in made)
        return False

    def _path_of(self, node: ast.AST) -> str | None:
        path = self.program.dotted(node.func if isinstance(node, ast.Call) else node)
        return path if path is None or "cpp_extension" not in path else None

    def _module(self, part: ast.Attribute) -> Iterator[str]:
        """Operators of the torch modules in ``self.name``, where more is done with it than reading its parameters."""
        if not isinstance(part.value, ast.Name) or part.value.id != "self" or not isinstance(part.ctx, ast.Load):
            return
        below: ast.AST = part
        above = self.program.parents.get(part)
        while isinstance(above, ast.Subscript) and above.value is below:
            below, above = above, self.program.parents.get(above)
        if isinstance(above, ast.Attribute) and above.attr not in ("forward", "__call__"):
            return
        info = self.program.enclosing_class(part)
        for value in (v for b in self.program.bases(info) for v in b.attributes.get(part.attr, ())) if info else ():
            yield from self._modules_in(value.node, info, value.owner, set())

    def _modules_in(
        self, node: ast.AST, info: ClassInfo | None, owner: Function | None, seen: set[ast.AST]
    ) -> Iterator[str]:
        if node in seen:
            return
        seen.add(node)
        for part in in_order(node):
            if isinstance(part, ast.Call):
                name = operators.module_of_dotted(self.program.dotted(part.func) or "")
                if name is not None and not isinstance(self.program.parents.get(part), ast.Attribute):
                    yield name
                called = part.func.attr if isinstance(part.func, ast.Attribute) else None
                methods = info.methods.get(called, []) if info is not None and called is not None else []
                for method in methods:
                    for line in in_order(method):
                        if isinstance(line, ast.Return) and line.value is not None:
                            yield from self._modules_in(line.value, info, method, seen)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                for value in self.program.inner.get(part.id, ()):
                    if value.owner is owner:
                        yield from self._modules_in(value.node, info, owner, seen)

    # --- what is a tensor ---------------------------------------------------------------------------------

    def _tensor_names(self, function: Function) -> set[str]:
        """Names of a function that stand for tensors, by what they are assigned and what is read of them."""
        if function in self._tensors:
            return self._tensors[function]
        found = self._tensors[function] = set()
        is_forward = function.name in ("forward", "__call__") and function in self.program.class_of
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        for argument in arguments:
            said = ast.unparse(argument.annotation) if argument.annotation is not None else ""
            if "Tensor" in said or (
                is_forward and argument.arg not in ("self", "ctx") and not said.startswith(_SCALARS)
            ):
                found.add(argument.arg)
        parts = list(in_order(function))
        for part in parts:
            if isinstance(part, ast.Attribute) and part.attr in _SHOWS_TENSOR and isinstance(part.value, ast.Name):
                found.add(part.value.id)
        found -= {"self", "cls", "ctx", *self.program.imports}
        for _ in range(3):
            for part in parts:
                if isinstance(part, ast.Assign) and self._is_tensor(part.value, found):
                    found.update(target.id for target in part.targets if isinstance(target, ast.Name))
        return found

    def _is_tensor(self, node: ast.AST, tensors: set[str]) -> bool:
        for _ in range(64):
            if isinstance(node, ast.Name):
                return node.id in tensors
            if isinstance(node, ast.BinOp):
                if isinstance(node.op, ast.MatMult) or self._is_tensor(node.right, tensors):
                    return True
                node = node.left
            elif isinstance(node, ast.UnaryOp):
                node = node.operand
            elif isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Attribute):
                if node.attr in _NO_TENSOR or (isinstance(node.value, ast.Name) and node.value.id == "self"):
                    return False
                node = node.value
            elif isinstance(node, ast.Call):
                path = self.program.dotted(node.func)
                if path is not None:
                    return operators.of_dotted(path) is not None or path in ("torch.empty_like", "torch.zeros_like")
                if not isinstance(node.func, ast.Attribute):
                    return False
                if node.func.attr in _NO_TENSOR:
                    return False
                if isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
                    return any(True for _ in self._module(node.func))
                node = node.func.value
            else:
                return False
        return False
