"""Classes whose attributes are more than what is read of them by name: dataclasses, enumerations, named tuples.

Their fields are what a constructor takes and what a loop goes through, so none can be left out; and what they hold may
be read by nothing. Where one of them tells a hidden number, the problem is refused.
"""

from __future__ import annotations

import abc
import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbverified.prompts.hidden import Number, numbers_in, refusal


def classes_with_fields(module: Mapping[str, Any]) -> frozenset[str]:
    """Names of a module that are bound to such classes, or to others that their metaclass makes something of."""
    return frozenset(name for name, value in module.items() if isinstance(value, type) and _has_fields(value))


def _has_fields(value: type) -> bool:
    made = type(value) not in (type, abc.ABCMeta) or hasattr(value, "__attrs_attrs__")
    return made or dataclasses.is_dataclass(value) or issubclass(value, tuple)


def refuse_hidden(path: Path, tree: ast.Module, hidden: set[Number], with_fields: frozenset[str]) -> None:
    """Raises InputBlindError for a field, or an argument that becomes one, with a hidden number in it."""
    for node in ast.walk(tree):
        told: set[Number] = set()
        if isinstance(node, ast.ClassDef) and node.name in with_fields:
            name = node.name
            told = numbers_in(one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in with_fields:
            name = node.func.id
            told = numbers_in([*node.args, *node.keywords])
        if told & hidden:
            found = ", ".join(map(str, sorted(told & hidden)))
            raise refusal(path, None, f"a field of {name} tells {found}")
