"""How data travels inside the page: JSON, compressed, in letters that mean nothing to an HTML parser.

Everything that a candidate had a hand in goes through here. Base64 has no character of markup, so that no source, name
or log can end the element that it stands in; in the browser it comes out as strings that are only ever shown as text.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

LEVEL = 9


def pack(value: Any) -> str:
    """JSON, gzip, base64: what assets/decode.js undoes. The same value gives the same text.

    Raises ValueError for NaN and infinities, which JSON does not have.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), LEVEL, mtime=0)).decode()


def words(values: Iterable[str | None]) -> dict[str, Any]:
    """A column of texts as a list of distinct ones and the position of each row's in it; null is -1."""
    places: dict[str, int] = {}
    at = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
    return {"words": list(places), "at": at}


def numbers(values: Iterable[float | None], digits: int | None = None) -> dict[str, Any]:
    """A column of numbers with so many significant digits; None keeps every bit."""
    return {"values": [rounded(value, digits) for value in values]}


def rounded(value: float | None, digits: int | None) -> float | int | None:
    """A number with so many significant digits. Infinity and NaN are None: no record holds them."""
    if value is None or not math.isfinite(value):
        return None
    if digits is None:
        return value
    short = float(f"{value:.{digits}g}")
    if math.isinf(short):  # records hold the largest number where an error has no bound, and rounding it goes beyond
        return value
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def pairs(items: Sequence[tuple[str, Any]]) -> list[list[Any]]:
    """Label and value of what is there, as lists: a key that a candidate chose never becomes a property's name."""
    return [[label, value] for label, value in items if value is not None and value != ""]
