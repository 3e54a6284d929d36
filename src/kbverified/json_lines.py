"""JSON lines, read so that every complaint can name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbverified.file_plan import ImportRefused


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number (from 1) and object of every line that is not blank.

    Lines end at a line feed only: U+2028 and its kin occur inside strings. Raises ImportRefused with file and line.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (ValueError, RecursionError) as error:
                raise ImportRefused(f"{path}: line {number}: not JSON: {error}. The file may be cut off.") from None
            if not isinstance(row, dict):
                raise ImportRefused(f"{path}: line {number}: not an object (value {str(row)[:60]!r})")
            yield number, row


def integer_field(row: Mapping[str, Any], field: str, where: str) -> int:
    """A whole number that is not negative, also where it is written as text. Raises ImportRefused."""
    value = row.get(field)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    listed = "" if field in row else f"; there are {', '.join(map(str, row))[:200]}"
    raise ImportRefused(f"{where}: {field} is not a whole number (value {value!r}{listed})")
