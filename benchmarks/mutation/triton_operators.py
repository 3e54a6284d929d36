"""Mutation operators on Triton kernels: functions decorated with ``triton.jit``, and the grid that launches them.

They work on Python's own syntax tree and replace the text of one node. Torch-free.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.mutation.operators import Site, operator


class Python:
    """A source, its tree, and where nodes lie in it."""

    def __init__(self, source: str):
        self.source = source
        self.tree = ast.parse(source)
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts
        self._lines = source.splitlines(keepends=True)

    def kernels(self) -> Iterator[ast.FunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
                yield node

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Nodes of these kinds in the bodies of all kernels."""
        for kernel in self.kernels():
            for statement in kernel.body:
                for node in ast.walk(statement):
                    if isinstance(node, kinds):
                        yield node

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of ``tl.name`` in kernels."""
        for node in self.nodes(ast.Call):
            assert isinstance(node, ast.Call)
            if isinstance(node.func, ast.Attribute) and node.func.attr in names:
                yield node

    def text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self.source, node) or ""

    def put(self, node: ast.expr | ast.stmt, new: str) -> Site:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return Site(self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset), new)

    def _at(self, line: int, column_bytes: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column_bytes].decode())

    def in_addresses(self) -> set[ast.AST]:
        """Nodes within the first argument of a load or store, masks and what arange and program_id enter."""
        found: set[ast.AST] = set()
        for call in self.calls("load", "store", "atomic_add"):
            places = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "mask")]
            found.update(node for place in places for node in ast.walk(place))
        for assign in self.nodes(ast.Assign):
            assert isinstance(assign, ast.Assign)
            if re.search(r"arange|program_id|_ptrs?\b|_pointer\b", ast.unparse(assign.value)):
                found.update(ast.walk(assign.value))
        return found


def _sum(python: Python, *kinds: type[ast.operator]) -> Iterator[ast.BinOp]:
    """Operations of values, not of addresses."""
    addresses = python.in_addresses()
    for node in python.nodes(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, kinds) and node not in addresses:
            yield node


@operator("index-plus-one", "wrong index", "triton")
def index_plus_one(source: str) -> Iterator[Site]:
    """tl.load(p) becomes tl.load(p + 1)."""
    python = Python(source)
    for call in python.calls("load", "store"):
        yield python.put(call.args[0], f"({python.text(call.args[0])}) + 1")


@operator("stride-dropped", "wrong index", "triton")
def stride_dropped(source: str) -> Iterator[Site]:
    """row * stride in an address becomes row."""
    python = Python(source)
    for node in python.in_addresses():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            yield python.put(node, python.text(node.left))


@operator("bound-short", "off by one", "triton")
def bound_short(source: str) -> Iterator[Site]:
    """offsets < n becomes offsets < n - 1."""
    python = Python(source)
    for node in python.nodes(ast.Compare):
        assert isinstance(node, ast.Compare)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt):
            yield python.put(node.comparators[0], f"({python.text(node.comparators[0])} - 1)")


@operator("addend-dropped", "dropped term", "triton")
def addend_dropped(source: str) -> Iterator[Site]:
    """a + b or a - b of values becomes a."""
    python = Python(source)
    for node in _sum(python, ast.Add, ast.Sub):
        yield python.put(node, python.text(node.left))


@operator("factor-dropped", "dropped term", "triton")
def factor_dropped(source: str) -> Iterator[Site]:
    """a * b or a / b of values becomes a."""
    python = Python(source)
    for node in _sum(python, ast.Mult, ast.Div):
        yield python.put(node, python.text(node.left))


@operator("accumulation-overwritten", "dropped term", "triton")
def accumulation_overwritten(source: str) -> Iterator[Site]:
    """x += e becomes x = e."""
    python = Python(source)
    for node in python.nodes(ast.AugAssign):
        assert isinstance(node, ast.AugAssign)
        if isinstance(node.op, ast.Add) and not re.search(r"ptr|pointer|off", python.text(node.target)):
            yield python.put(node, f"{python.text(node.target)} = {python.text(node.value)}")


@operator("operands-swapped", "swapped operands", "triton")
def operands_swapped(source: str) -> Iterator[Site]:
    """a - b becomes b - a, a / b becomes b / a."""
    python = Python(source)
    for node in _sum(python, ast.Sub, ast.Div):
        sign = "-" if isinstance(node.op, ast.Sub) else "/"
        yield python.put(node, f"(({python.text(node.right)}) {sign} ({python.text(node.left)}))")


@operator("choice-swapped", "swapped operands", "triton")
def choice_swapped(source: str) -> Iterator[Site]:
    """tl.where(c, a, b) becomes tl.where(c, b, a)."""
    python = Python(source)
    for call in python.calls("where"):
        if len(call.args) == 3:
            words = [python.text(call.args[k]) for k in (0, 2, 1)]
            yield python.put(call, f"{python.text(call.func)}({', '.join(words)})")


def _epsilons(python: Python) -> Iterator[ast.expr]:
    for node in python.nodes(ast.Name, ast.Constant):
        if isinstance(node, ast.Name) and re.search(r"eps", node.id) and isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1e-3:
            yield node


@operator("epsilon-hundredfold", "wrong epsilon", "triton")
def epsilon_hundredfold(source: str) -> Iterator[Site]:
    """eps becomes 100 * eps."""
    python = Python(source)
    for node in _epsilons(python):
        yield python.put(node, f"(100 * {python.text(node)})")


@operator("epsilon-zero", "wrong epsilon", "triton")
def epsilon_zero(source: str) -> Iterator[Site]:
    """eps becomes 0 * eps."""
    python = Python(source)
    for node in _epsilons(python):
        yield python.put(node, f"(0 * {python.text(node)})")


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


@operator("condition-always", "missing bound check", "triton")
def condition_always(source: str) -> Iterator[Site]:
    """mask=m becomes one that is true everywhere."""
    python = Python(source)
    for call in python.calls("load", "store"):
        mask = _keyword(call, "mask")
        if mask is not None:
            text = python.text(mask)
            yield python.put(mask, f"(({text}) | (({text}) == ({text})))")


@operator("conjunct-dropped", "missing bound check", "triton")
def conjunct_dropped(source: str) -> Iterator[Site]:
    """a & b becomes a | b."""
    python = Python(source)
    for node in python.nodes(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            yield python.put(node, f"({python.text(node.left)}) | ({python.text(node.right)})")


@operator("start-one", "uninitialised accumulator", "triton")
def start_one(source: str) -> Iterator[Site]:
    """tl.zeros(shape) becomes tl.zeros(shape) + 1."""
    python = Python(source)
    for call in python.calls("zeros", "zeros_like"):
        yield python.put(call, f"({python.text(call)} + 1)")


@operator("other-wrong", "uninitialised accumulator", "triton")
def other_wrong(source: str) -> Iterator[Site]:
    """other=x, what stands for elements outside, becomes 1."""
    python = Python(source)
    for call in python.calls("load"):
        other = _keyword(call, "other")
        if other is not None:
            yield python.put(other, "1.0")


@operator("reduced-axis", "wrong axis", "triton")
def reduced_axis(source: str) -> Iterator[Site]:
    """[:, None] becomes [None, :], and axis=1 axis=0."""
    python = Python(source)
    for node in python.nodes(ast.Subscript):
        assert isinstance(node, ast.Subscript)
        text = python.text(node.slice).replace(" ", "")
        if text in (":,None", "None,:"):
            yield python.put(node.slice, "None, :" if text == ":,None" else ":, None")
    for call in python.calls("sum", "max", "min", "argmax", "argmin", "cumsum", "softmax"):
        axis = _keyword(call, "axis") or (call.args[1] if len(call.args) == 2 else None)
        if axis is not None and python.text(axis) in ("0", "1"):
            yield python.put(axis, "1" if python.text(axis) == "0" else "0")


@operator("thread-axis", "wrong axis", "triton")
def thread_axis(source: str) -> Iterator[Site]:
    """program_id(0) becomes program_id(1), and the other way round."""
    python = Python(source)
    for call in python.calls("program_id"):
        axis = call.args[0] if call.args else _keyword(call, "axis")
        if axis is not None and python.text(axis) in ("0", "1"):
            yield python.put(axis, "1" if python.text(axis) == "0" else "0")


@operator("store-bfloat16", "narrowed precision", "triton")
def store_bfloat16(source: str) -> Iterator[Site]:
    """What is stored is rounded to bfloat16."""
    python = Python(source)
    for call in python.calls("store"):
        if len(call.args) >= 2:
            yield python.put(call.args[1], f"({python.text(call.args[1])}).to(tl.bfloat16).to(tl.float32)")


@operator("addend-half", "narrowed precision", "triton")
def addend_half(source: str) -> Iterator[Site]:
    """x += e rounds e to float16."""
    python = Python(source)
    for node in python.nodes(ast.AugAssign):
        assert isinstance(node, ast.AugAssign)
        if isinstance(node.op, ast.Add) and not re.search(r"ptr|pointer|off", python.text(node.target)):
            yield python.put(node.value, f"({python.text(node.value)}).to(tl.float16).to(tl.float32)")


@operator("blocks-rounded-down", "skipped tail", "triton")
def blocks_rounded_down(source: str) -> Iterator[Site]:
    """triton.cdiv(n, block), also in the grid, becomes (n - 1) // block."""
    python = Python(source)
    for node in ast.walk(python.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cdiv":
            if len(node.args) == 2:
                yield python.put(node, f"(({python.text(node.args[0])} - 1) // {python.text(node.args[1])})")


@operator("loop-rounded-down", "skipped tail", "triton")
def loop_rounded_down(source: str) -> Iterator[Site]:
    """range(a, b, step) ends one step early."""
    python = Python(source)
    for node in python.nodes(ast.For):
        assert isinstance(node, ast.For)
        if isinstance(node.iter, ast.Call) and len(node.iter.args) >= 2:
            bound, step = node.iter.args[1], python.text(node.iter.args[2]) if len(node.iter.args) > 2 else "1"
            yield python.put(bound, f"({python.text(bound)}) - {step}")


@operator("sync-deleted", "lost sync", "triton")
def sync_deleted(source: str) -> Iterator[Site]:
    """tl.debug_barrier() is deleted."""
    python = Python(source)
    for call in python.calls("debug_barrier"):
        yield python.put(call, "None")
