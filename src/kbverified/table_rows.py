"""A table that people write: tabs or YAML, as rows of named values that some model then checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class TableError(ValueError):
    """A table that cannot be read. The message names file, row and column."""


@dataclass(frozen=True)
class Row:
    """One row: where it stands, and what is given in it."""

    where: str
    values: dict[str, Any]


def read_rows(path: Path, columns: Iterable[str], required: Iterable[str]) -> list[Row]:
    """Rows of a ``.yaml`` or ``.yml`` file, or of a table with tabs, in their order.

    YAML: a list of mappings. Tabs: a header, ``#`` starts a comment line, an empty cell is not given. Raises
    TableError, FileNotFoundError.
    """
    known = list(columns)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not UTF-8 at byte {error.start}. Convert the file to UTF-8.") from None
    if path.suffix in (".yaml", ".yml"):
        return _of_yaml(path, text, known)
    return _of_tabs(path, text, known, list(required))


def _of_tabs(path: Path, text: str, columns: list[str], required: list[str]) -> list[Row]:
    table = [
        (number, [cell.strip() for cell in line.split("\t")])
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not table:
        raise TableError(f"{path}: no header. Its columns are {', '.join(columns)}, with tabs between.")
    number, header = table[0]
    for column in header:
        _check_column(f"{path}: row {number}", column, columns, ", with tabs between")
        if header.count(column) > 1:
            raise TableError(f"{path}: row {number}: column {column} is there twice")
    if missing := [column for column in required if column not in header]:
        raise TableError(f"{path}: row {number}: no column {', '.join(missing)}")
    rows = []
    for number, cells in table[1:]:
        if len(cells) > len(header):
            raise TableError(
                f"{path}: row {number}: {len(cells)} cells under {len(header)} columns. Is there a tab too many?"
            )
        given = {column: cell for column, cell in zip(header, cells) if cell}
        rows.append(Row(f"{path}: row {number}", given))
    return rows


def _of_yaml(path: Path, text: str, columns: list[str]) -> list[Row]:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # Its own words may quote a line with a key in it.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise TableError(f"{path}: no YAML{where}: {getattr(error, 'problem', None) or 'cannot be read'}") from None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TableError(f"{path}: not a list of rows. Write each as '- generator: NAME' with its columns below it.")
    rows = []
    for number, item in enumerate(value, start=1):
        for column in item:
            _check_column(f"{path}: row {number}", column, columns, "")
        rows.append(Row(f"{path}: row {number}", {name: cell for name, cell in item.items() if cell is not None}))
    return rows


def _check_column(where: str, column: Any, columns: list[str], how: str) -> None:
    if column not in columns:
        raise TableError(f"{where}: unknown column {column!r}. Columns are {', '.join(columns)}{how}.")
