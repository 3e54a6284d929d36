"""Default values that no call relies on: they say something about a problem's sizes and take no part in its result."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def first_defaults(arguments: ast.arguments, given: int) -> list[ast.expr]:
    """Defaults among the first ``given`` positional arguments."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return arguments.defaults[: max(0, given - (positional - len(arguments.defaults)))]


def drop_first(arguments: ast.arguments, given: int) -> None:
    """Take away the defaults of the first ``given`` positional arguments."""
    del arguments.defaults[: len(first_defaults(arguments, given))]


def drop_in_helpers(statements: Iterable[ast.stmt]) -> None:
    """Take away what every call of a module's own function or class overrides, as far as calls can be read.

    One that is also used otherwise (handed on, inherited from) keeps its defaults. Changes the statements.
    """
    statements = list(statements)
    everything = [node for statement in statements for node in ast.walk(statement)]
    for statement in statements:
        function, bound = _callee(statement)
        if function is None or statement.name == "Model":  # type: ignore[attr-defined]
            continue
        name = statement.name  # type: ignore[attr-defined]
        uses = [n for n in everything if isinstance(n, ast.Name) and n.id == name]
        calls = [
            n for n in everything if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name
        ]
        starred = any(isinstance(a, ast.Starred) for c in calls for a in c.args) or any(
            k.arg is None for c in calls for k in c.keywords
        )
        if calls and len(calls) == len(uses) and not starred:
            _drop_named(function.args, set.intersection(*(_passed(function.args, bound, call) for call in calls)))


def _callee(statement: ast.stmt) -> tuple[_Function | None, int]:
    """What a call of this name runs, and how many arguments it is given by Python itself."""
    if isinstance(statement, _Function):
        return statement, 0
    if isinstance(statement, ast.ClassDef):
        return next((n for n in statement.body if isinstance(n, _Function) and n.name == "__init__"), None), 1
    return None, 0


def _passed(arguments: ast.arguments, bound: int, call: ast.Call) -> set[str]:
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][bound:]
    return {*positional[: len(call.args)], *(k.arg for k in call.keywords if k.arg)}


def _drop_named(arguments: ast.arguments, passed: set[str]) -> None:
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    defaulted = names[len(names) - len(arguments.defaults) :]
    while arguments.defaults and defaulted[0] in passed:
        del arguments.defaults[0], defaulted[0]
    for index, name in enumerate(defaulted):  # behind one that is needed Python asks for some default
        if name in passed:
            arguments.defaults[index] = ast.Constant(None)
    for index, one in enumerate(arguments.kwonlyargs):
        if one.arg in passed:
            arguments.kw_defaults[index] = None
