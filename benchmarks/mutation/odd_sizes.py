"""Variants of a KernelBench problem whose sizes are no multiples of a block, from its source alone. Torch-free, pure.

KernelBench's sizes are multiples of every block size in use, so that a bound check is never false there, no grid has a
tail, and a mutant that drops either computes what its parent does. Of the 33 mutants of the first GPU run (143 that
build) that came out bitwise equal 12 were of that kind. With odd sizes they are faults that a test can see.

A *size* is a whole number at the module's level, alone (``N = 2048 * 2``), in a row (``height, width = 34, 34``) or in
a tuple (``input_shape = (32768,)``), that is even, at least SIZE_MIN and no part of the structure by its name (a kernel
size, a number of groups, heads or classes). It becomes the largest smaller number that leaves 5 or 3 when divided by 8
and that nothing else in the problem is: 8192 becomes 8189, and a second 8192 becomes 8187, so that a kernel that takes
rows for columns is told from one that does not. What one statement sets stays one number (``height = width = 256``).

Variants, in the order in which they are tried:

- ``all``: every size. Where the reference refuses that (a width that its heads divide), every size but one, the last
  that it can do without: ``all-but-n_embd``;
- ``batch``: the first dimension of the inputs alone;
- ``none``: the problem as it is.

Which of them a parent passes is decided on the GPU (``variants.py``); whether the reference runs at all, on fake
tensors (``fake_worker.py``). Of the 26 GPU parents' problems 23 have an ``all`` that the reference accepts; the three
with attention (level3_43, level3_44, level3_50) have ``all-but-n_embd``, since the heads divide the width.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.mutation.mutants import characters

SIZE_MIN = 32
MODULUS, REMAINDERS = 8, (5, 3)
"""Odd, so a multiple of no block, and neither one more nor one less than a multiple of 8."""
NONE = "none"
_STRUCTURE = re.compile(r"kernel|group|class|head|stride|padd|dilat|pool|factor|scale|seed", re.IGNORECASE)


@dataclass(frozen=True)
class Size:
    """A number in a problem's source. ``start`` and ``end``: its characters; ``name``: of what it is set to."""

    name: str
    value: int
    start: int
    end: int


def sizes(source: str) -> list[Size]:
    """The sizes of a problem, in the order of its source. Raises SyntaxError for a source that is no Python."""
    at = characters(source)
    found = []
    for name, node in _numbers(ast.parse(source)):
        value = _value(node) if name.isidentifier() else None
        if value is not None and value >= SIZE_MIN and value % 2 == 0 and not _STRUCTURE.search(name):
            assert node.end_lineno is not None and node.end_col_offset is not None
            start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
            found.append(Size(name, value, start, end))
    return found


def _numbers(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """What module-level names are set to, elements of tuples one by one."""
    found: list[tuple[str, ast.expr]] = []
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        elif isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        else:
            continue
        target = targets[0]
        if isinstance(value, ast.Tuple | ast.List):
            row = isinstance(target, ast.Tuple) and len(target.elts) == len(value.elts)
            names = [ast.unparse(t) for t in target.elts] if row and isinstance(target, ast.Tuple) else []
            names = names or [f"{ast.unparse(target)}_{k}" for k in range(len(value.elts))]
            found += zip(names, value.elts, strict=True)
        else:
            found.append((ast.unparse(target), value))
    return found


def _value(node: ast.expr) -> int | None:
    """Of a whole number, or of products, sums, differences and powers of some; None of anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Pow) and 0 <= right < 64:
            return int(left**right)
    return None


def odd(source: str, names: Sequence[str] | None = None) -> str:
    """The problem with these sizes changed, all of them where ``names`` is None."""
    every = sizes(source)
    taken = {value for _, node in _numbers(ast.parse(source)) if (value := _value(node)) is not None}
    new: dict[Size, int] = {}
    for size in every:  # also of those that stay: a size comes out the same in every variant
        number = size.value - 1
        while number % MODULUS not in REMAINDERS or number in taken:
            number -= 1
        taken.add(number)
        new[size] = number
    for size in sorted(every, key=lambda s: s.start, reverse=True):
        if names is None or size.name in names:
            source = f"{source[: size.start]}{new[size]}{source[size.end :]}"
    return source


def batch(source: str) -> str | None:
    """The size that is the first dimension of an input, by its name; None where no input begins with one."""
    known = {size.name for size in sizes(source)}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "get_inputs":
            calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and call.args]
            for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
                first = call.args[0]
                if isinstance(first, ast.Tuple | ast.List) and first.elts:
                    first = first.elts[0]
                if isinstance(first, ast.Name) and first.id in known:
                    return first.id
    return None


def candidates(source: str) -> dict[str, str]:
    """Every variant that may be asked for, by name, in the order of preference, ``none`` last; no source twice."""
    names, first = [size.name for size in sizes(source)], batch(source)
    found = {"all": odd(source)} if names else {}
    for one in reversed(names if len(names) > 1 else []):
        rest = [name for name in names if name != one]
        if rest != [first]:
            found[f"all-but-{one}"] = odd(source, rest)
    if first is not None and names != [first]:
        found["batch"] = odd(source, [first])
    return {**found, NONE: source}


def wanted(source: str, accepted: Mapping[str, bool]) -> list[str]:
    """Names of the variants to try, in order: the widest that the reference accepts, ``batch`` if it does, ``none``.

    ``accepted``: by variant, whether the reference runs on it.
    """
    names = [name for name in candidates(source) if name == NONE or accepted[name]]
    widest = [name for name in names if name.startswith("all")][:1]
    return [*widest, *(name for name in names if not name.startswith("all"))]
