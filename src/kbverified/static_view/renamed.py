"""Is a candidate the problem's reference under other names? Compared as syntax trees of what a class reaches.

Names that the module binds, locals and attributes of ``self`` are numbered in the order in which they first occur;
imported names are spelt in full. Docstrings, comments, annotations and whatever the class does not reach drop out.
"""

from __future__ import annotations

import ast

from kbverified.static_view.program import FUNCTIONS, ClassInfo, Function, Program

# Names that mean something to torch and keep their spelling.
_FIXED = frozenset("forward weight bias training".split())


def fingerprint(program: Program, name: str) -> str | None:
    """A text that is the same for two classes that are one program under other names; None where there is no class.

    Raises RecursionError for a tree that is too deep.
    """
    info = program.root_class(name)
    if info is None:
        return None
    for _ in range(8):  # class ModelNew(Model): pass
        bases = list(program.bases(info))[1:2]
        if len(info.node.bases) != 1 or not bases or _body(info.node.body):
            break
        info = bases[0]
    return _Writer(program).write(info)


def _body(lines: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without docstrings and pass."""
    return [
        line
        for line in lines
        if not isinstance(line, ast.Pass)
        and not (
            isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
        )
    ]


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.numbers: dict[str, int] = {}
        self.waiting: list[ast.AST] = []
        self.queued: set[ast.AST] = set()
        self.function: list[Function] = []

    def write(self, info: ClassInfo) -> str:
        self._queue(info.node)
        written = []
        while self.waiting:
            written.append(self._dump(self.waiting.pop(0)))
        return "\n".join(written)

    def _queue(self, node: ast.AST) -> None:
        if node not in self.queued:
            self.queued.add(node)
            self.waiting.append(node)

    def _number(self, kind: str, name: str) -> str:
        return f"{kind}{self.numbers.setdefault(f'{kind} {name}', len(self.numbers))}"

    def _dump(self, node: object) -> str:
        if isinstance(node, list):
            return "[" + ",".join(self._dump(item) for item in node) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        special = self._special(node)
        if special is not None:
            return special
        parts = [self._dump(value) for _, value in ast.iter_fields(node)]
        return f"{type(node).__name__}({','.join(parts)})"

    def _special(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node)
        if isinstance(node, ast.arg):
            return self._number("local", node.arg)
        if isinstance(node, ast.ClassDef):
            first = [line for line in node.body if isinstance(line, FUNCTIONS)]
            first.sort(key=lambda method: {"__init__": 0, "forward": 1}.get(method.name, 2))
            others = [line for line in _body(node.body) if not isinstance(line, FUNCTIONS)]
            return f"class({self._dump(node.bases)},{self._dump(others)},{self._dump(first)})"
        if isinstance(node, FUNCTIONS):
            is_method = node in self.program.class_of
            name = self._own(node.name) if is_method else self._number("global", node.name)
            lines = [line for line in _body(node.body) if not isinstance(line, ast.Import | ast.ImportFrom)]
            self.function.append(node)
            text = f"def {name}({self._dump(node.args)},{self._dump(node.decorator_list)},{self._dump(lines)})"
            self.function.pop()
            return text
        if isinstance(node, ast.AnnAssign):
            return f"Assign([{self._dump(node.target)}],{self._dump(node.value)},None)"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            return "super()"
        return None

    def _own(self, name: str) -> str:
        fixed = name in _FIXED or name.startswith("__")
        return name if fixed else self._number("own", name)

    def _named(self, node: ast.Name | ast.Attribute) -> str:
        path = self.program.dotted(node)
        if path is not None and not (isinstance(node, ast.Name) and self._is_local(node.id)):
            return f"@{path}"
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            return f"{self._dump(node.value)}.{self._own(node.attr) if own else node.attr}"
        if self._is_local(node.id):
            return self._number("local", node.id)
        if node.id in self.program.classes:
            self._queue(self.program.classes[node.id].node)
        for function in self.program.functions.get(node.id, ()):
            self._queue(function)
        for value in self.program.values.get(node.id, ()):
            self._queue(value.node)
        bound = (self.program.classes, self.program.functions, self.program.values)
        return self._number("global", node.id) if any(node.id in table for table in bound) else node.id

    def _is_local(self, name: str) -> bool:
        return any(name in self.program.locals[function] for function in self.function)
