"""A problem's inputs and constructor arguments in words: rank, dtype and equal sizes, names and types, and no value."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbverified.prompts.hidden import Number, in_name, refusal


@dataclass(frozen=True)
class Argument:
    """One input of forward or one argument of the constructor, without its value."""

    name: str
    what: str
    """``float32 tensor of shape (a, b)``, ``int``, ``tuple of int``."""


def _parameters(function: Any) -> list[str]:
    """Names of positional parameters after self; a name with a star for the rest."""
    names = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            names.append(f"*{parameter.name}")
    return names


def _named(path: Path, function: Any, values: list[Any]) -> list[tuple[str, Any]]:
    names = _parameters(function)
    while len(names) < len(values) and names and names[-1].startswith("*"):
        names.append(names[-1])
    if len(names) < len(values):
        what = f"{function.__qualname__} takes {len(names)} arguments and is given {len(values)}"
        raise refusal(path, None, what)
    return list(zip(names, values))


def inputs(path: Path, model: Any, values: list[Any], dtype: str, hidden: set[Number]) -> tuple[Argument, ...]:
    """What forward is given. Raises InputBlindError, as below."""
    symbols: dict[int, str] = {}
    named = _named(path, model.forward, values)
    return tuple(_told(path, name, value, _input(value, symbols, dtype), hidden) for name, value in named)


def init_arguments(path: Path, model: Any, values: list[Any], hidden: set[Number]) -> tuple[Argument, ...]:
    """What the constructor is given. Raises InputBlindError where an argument's name or type tells a hidden number."""
    named = _named(path, model.__init__, values)
    return tuple(_told(path, name, value, _type(value), hidden) for name, value in named)


def _told(path: Path, name: str, value: Any, what: str, hidden: set[Number]) -> Argument:
    words = name if hasattr(value, "dtype") else f"{name}: {what}"  # float32 is no size
    if (number := in_name(words, hidden)) is not None:
        raise refusal(path, None, f"an argument's name or type ({words}) tells {number}")
    return Argument(name, what)


def _input(value: Any, symbols: dict[int, str], dtype: str) -> str:
    import torch

    if not isinstance(value, torch.Tensor):
        return _type(value)
    kind = str(value.dtype).removeprefix("torch.")
    kind = dtype if kind == "float32" else kind
    dimensions = [symbols.setdefault(size, _symbol(len(symbols))) for size in value.shape]
    if not dimensions:
        return f"{kind} tensor without dimensions"
    shape = ", ".join(dimensions) + ("," if len(dimensions) == 1 else "")
    return f"{kind} tensor of shape ({shape}){'' if value.is_contiguous() else ', not contiguous'}"


def _symbol(index: int) -> str:
    """a, b, ... z, aa, ab, ...: a name without digits."""
    letter = chr(ord("a") + index % 26)
    return letter if index < 26 else _symbol(index // 26 - 1) + letter


def _type(value: Any) -> str:
    """``int``, ``tuple of int``: neither value nor length."""
    if value is None:
        return "None"
    if isinstance(value, list | tuple | set):
        inner = sorted({_type(one) for one in value})
        return f"{type(value).__name__}{' of ' + ' or '.join(inner) if inner else ', empty'}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return "tensor"
    return type(value).__name__
