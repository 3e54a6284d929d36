"""A problem without its numbers: the code of Model alone, and its inputs described by rank, dtype and equal sizes.

The problem, which is trusted, is executed: its inputs are made on torch's meta device, where a tensor has a shape and
no memory. What the input functions, the module's constants and what they reach hold is *hidden*; the text that is left
is searched for it again before it is returned.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbverified import problems
from kbverified.prompts import described, overridden
from kbverified.prompts.described import Argument
from kbverified.prompts.fields import classes_with_fields, refuse_hidden
from kbverified.prompts.hidden import InputBlindError, Number, in_name, numbers_in, numbers_of, refusal, telling
from kbverified.prompts.module import Known, Module
from kbverified.prompts.reduction import INPUT_FUNCTIONS, reduce


@dataclass(frozen=True)
class BlindProblem:
    code: str
    inputs: tuple[Argument, ...]
    init_arguments: tuple[Argument, ...]
    numbers_in_code: tuple[Number, ...]
    """Numbers that are hidden and that Model's own computation holds as well: they cannot be taken out."""


def blind(path: Path, dtype: str) -> BlindProblem:
    """Reduce a problem. ``dtype``: what float32 inputs are called, ``float32`` or ``bfloat16``.

    Raises InputBlindError where a constant could not be hidden, problems.ProblemError where the problem is unusable.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a problem prints is no part of a prompt that is printed
            problem = problems.load(path)
            inputs, init_values = _call(problem)
        return _reduced(problem, inputs, init_values, dtype)
    except RecursionError:
        raise refusal(path, None, "it is nested too deeply to be read") from None


def _reduced(problem: problems.ProblemModule, inputs: list[Any], init_values: list[Any], dtype: str) -> BlindProblem:
    path = problem.path
    text = path.read_bytes().decode("utf-8-sig")
    known = _known(problem, len(inputs), len(init_values))
    module = Module.of(path, text, known)
    statements = reduce(module, known)
    hidden = _hidden(path, ast.parse(text, str(path)), statements, known)
    for name in module.removed:
        hidden |= telling(numbers_of(getattr(problem.module, name, None)))
    hidden |= telling(n for one in (*inputs, *init_values) for n in numbers_of(one))
    code = "\n\n\n".join(_blocks(statements))
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise refusal(path, None, f"what is left of Model is no Python ({error})") from None
    refuse_hidden(path, tree, hidden, known.with_fields)
    numbers = _search(path, tree, hidden, set(module.imports))
    arguments = (
        described.inputs(path, problem.Model, inputs, dtype, hidden),
        described.init_arguments(path, problem.Model, init_values, hidden),
    )
    return BlindProblem(code, *arguments, numbers_in_code=numbers)


def _call(problem: problems.ProblemModule) -> tuple[list[Any], list[Any]]:
    import torch

    results = []
    for function in (problem.get_inputs, problem.get_init_inputs):
        try:
            with torch.device("meta"):
                results.append(list(function()))
        except Exception as error:
            what = f"{function.__name__} raises {type(error).__name__} on torch's meta device ({error})"
            raise refusal(problem.path, None, what) from None
    return results[0], results[1]


def _known(problem: problems.ProblemModule, n_inputs: int, n_init: int) -> Known:
    import torch

    model = problem.Model
    if not isinstance(model, type) or not callable(getattr(model, "forward", None)):
        raise refusal(problem.path, None, "Model is no class with a forward")
    given = {}
    for name, count in (("__init__", n_init), ("forward", n_inputs)):
        defined = getattr(getattr(model, name), "__qualname__", "")
        if defined not in {f"{owner.__qualname__}.{name}" for owner in model.__mro__}:
            raise refusal(problem.path, None, f"Model's {name} is no method that a class defines by that name")
        given[defined] = count
    names = vars(problem.module)
    callables = {name for name, value in names.items() if callable(value)}
    methods = frozenset(dir(torch.nn.Module))
    return Known(given, frozenset(names), frozenset(callables), methods, classes_with_fields(names))


# --- what is hidden -----------------------------------------------------------------------------------------


def _hidden(path: Path, original: ast.Module, statements: list[ast.stmt], known: Known) -> set[Number]:
    """Numbers of what is gone: statements, the input functions and all they reach, overridden defaults.

    Raises InputBlindError for what the input side and Model both read.
    """
    definitions = {n.name: n for n in original.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    kept = {n.name for n in statements if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    aliases = {name for n in statements if isinstance(n, ast.Assign) for name in _names(n, ast.Store)}
    side: list[ast.AST] = [definitions[name] for name in INPUT_FUNCTIONS if name in definitions]
    for node in original.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.Assign) and set(_names(node, ast.Store)) <= aliases):
            side.append(node)
    reached: set[str] = set()
    pending = list(side)
    while pending:
        for name in _names(pending.pop(), ast.Load):
            if name in definitions and name not in reached and name != "Model":
                reached.add(name)
                pending.append(definitions[name])
                if name not in kept:
                    side.append(definitions[name])
                elif numbers := numbers_in([definitions[name]]):
                    found = ", ".join(map(str, sorted(numbers)))
                    raise refusal(
                        path, definitions[name].lineno, f"Model and the inputs share {name}, which holds {found}"
                    )
    _refuse_shared_attributes(path, side, statements)
    return numbers_in([*side, *_overridden_defaults(original, known)])


def _refuse_shared_attributes(path: Path, side: list[ast.AST], statements: list[ast.stmt]) -> None:
    """A class attribute that the input side reads is a constant of the problem, wherever it stands."""
    attributes = {
        name: node.lineno
        for owner in statements
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and numbers_in([node])
        for name in _names(node, ast.Store)
    }
    for node in side:
        for inner in ast.walk(node):
            name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "value", None)
            if isinstance(name, str) and name in attributes:
                raise refusal(
                    path, attributes[name], f"Model reads its attribute {name}, which the inputs are made from"
                )


def _overridden_defaults(original: ast.Module, known: Known) -> Iterator[ast.AST]:
    for owner in (node for node in original.body if isinstance(node, ast.ClassDef)):
        for node in owner.body:
            if (
                isinstance(node, ast.FunctionDef)
                and (given := known.given.get(f"{owner.name}.{node.name}")) is not None
            ):
                yield from overridden.first_defaults(node.args, given + 1)


def _names(node: ast.AST, context: type[ast.expr_context]) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)]


# --- what is left -------------------------------------------------------------------------------------------


def _blocks(statements: list[ast.stmt]) -> list[str]:
    """Source of the statements: imports and aliases together, definitions apart."""
    texts: list[str] = []
    together = False
    for node in statements:
        text = ast.unparse(ast.fix_missing_locations(node))
        single = not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        if single and together:
            texts[-1] += f"\n{text}"
        else:
            texts.append(text)
        together = single
    return texts


def _search(path: Path, tree: ast.Module, hidden: set[Number], imported: set[str]) -> tuple[Number, ...]:
    """Hidden numbers that the code still holds as literals.

    Raises InputBlindError for those in names and texts: no computation needs them there.
    """
    literals: set[Number] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            found = numbers_of(node.value) & hidden
            if found and isinstance(node.value, str | bytes):
                raise refusal(path, None, f"Model holds a text that tells {found.pop()}: {node.value!r}")
            literals |= found
        for name in _own_names(node, imported):
            if (number := in_name(name, hidden)) is not None:
                raise refusal(path, None, f"the name {name} tells {number}")
    return tuple(sorted(literals))


def _own_names(node: ast.AST, imported: set[str]) -> Iterator[str]:
    """Names that the problem's author chose; ``torch.float32`` is none."""
    if isinstance(node, ast.Name) and node.id not in imported:
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if own or isinstance(node.ctx, ast.Store):
            yield node.attr
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or ""
    elif isinstance(node, ast.keyword):
        yield node.arg or ""
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield node.name or ""
    elif isinstance(node, ast.MatchMapping):
        yield node.rest or ""


__all__ = ["Argument", "BlindProblem", "InputBlindError", "blind"]
