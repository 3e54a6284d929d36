"""Which numbers an input-blind prompt must not tell: those of a problem's constants and of what they are made by."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterable
from math import isfinite
from typing import Any

from kbverified.problems import ProblemError

TRIVIAL = frozenset({0, 1, 2})
"""By absolute value. They stand in nearly every module (an axis, a factor) and tell nobody a size."""
SMALLEST_SIZE_IN_A_NAME = 10
"""``conv3`` and ``layer4`` count their likes; a number from here on in a name is taken for a size."""

Number = int | float


class InputBlindError(ProblemError):
    """A problem that cannot be asked without its constants. The message names file, line, name and what to do."""


def refusal(path: object, line: int | None, what: str) -> InputBlindError:
    """The error for one finding. ``line`` None: the finding has no place of its own."""
    where = f"{path}:{line}" if line else str(path)
    return InputBlindError(
        f"{where}: {what}, so it cannot be asked input-blind. Take the problem off prompts.input_blind, add it to "
        "prompts.never_blind, or change the problem."
    )


def numbers_in(nodes: Iterable[ast.AST]) -> set[Number]:
    """Numeric literals below some nodes, and whole numbers inside of their strings."""
    found: set[Number] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant):
                found |= numbers_of(inner.value)
    return telling(found)


def numbers_of(value: Any, depth: int = 4) -> set[Number]:
    """Numbers that a plain value holds: itself, what is in containers (``depth`` of them), digits in a string."""
    if isinstance(value, bool) or value is None or depth == 0:
        return set()
    if isinstance(value, int | float):
        return {value}
    if isinstance(value, complex):
        return {value.real, value.imag}
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return {*whole_numbers(value), *decimals(value)}
    if isinstance(value, dict):
        return numbers_of([*value, *value.values()], depth)
    if isinstance(value, list | tuple | set | frozenset):
        return {number for one in value for number in numbers_of(one, depth - 1)}
    shape = getattr(value, "shape", None)  # a tensor that lies at module level
    return set(map(int, shape)) if isinstance(shape, tuple) else set()


def telling(numbers: Iterable[Number]) -> set[Number]:
    """Without the trivial ones, and without infinity and nan."""
    return {
        number for number in numbers if abs(number) not in TRIVIAL and (isinstance(number, int) or isfinite(number))
    }


def whole_numbers(text: str) -> list[int]:
    """Each run of digits in a text, also inside of words."""
    return [int(digits) for digits in re.findall(r"[0-9]{1,20}", text)]


def decimals(text: str) -> set[Number]:
    """Numbers of a text that are more than a run of digits, in any script's: 0.25, 1e-5, 4,096, 4_096, 0x1000."""
    text = re.sub(r"(?<=\d)[_,' ](?=\d{3}(?!\d))", "", unicodedata.normalize("NFKC", text))
    found: set[Number] = {int(digits, 16) for digits in re.findall(r"0[xX]([0-9a-fA-F]{1,16})", text)}
    for word in re.findall(r"\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?|\.\d{1,20}", text):
        found.add(float(word))
    return found


def in_name(name: str, hidden: set[Number]) -> int | None:
    """The hidden number that a name spells out, as ``rows_4096`` or ``Rows4_096``; None where it spells none."""
    spelt = [*whole_numbers(name), *whole_numbers(re.sub(r"(?<=\d)_(?=\d{3}(?!\d))", "", name))]
    return next((n for n in spelt if n >= SMALLEST_SIZE_IN_A_NAME and n in hidden), None)
