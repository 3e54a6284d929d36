"""Problems: load a reference module, check one without running it, read and write a suite's manifest."""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import itertools
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from kbverified.keys import PROBLEM_PATTERN
from kbverified.module_names import module_level_names
from kbverified.records.base import Record

REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")
"""What a KernelBench reference module defines."""

_load_counter = itertools.count()


class ProblemError(ValueError):
    """A problem that cannot be used. The message names the file and what is wrong with it."""


class ManifestError(ValueError):
    """A manifest that is not what it should be. The message names file, row, column and value."""


@dataclass(frozen=True)
class ProblemModule:
    """A loaded reference: ``Model(*get_init_inputs())(*get_inputs())`` is its output."""

    path: Path
    sha256: str
    module: types.ModuleType
    Model: Callable[..., Any]
    get_inputs: Callable[[], list[Any]]
    get_init_inputs: Callable[[], list[Any]]


def _read_source(path: Path) -> tuple[bytes, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data, data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(
            f"{path}: not UTF-8 at byte {error.start} (value {data[error.start : error.start + 1]!r}). "
            "Convert the file to UTF-8."
        ) from None


def _syntax_problem(path: Path, error: SyntaxError | ValueError) -> ProblemError:
    if isinstance(error, SyntaxError):
        text = f" in {error.text.strip()[:80]!r}" if error.text else ""
        return ProblemError(f"{path}:{error.lineno}: syntax error: {error.msg}{text}")
    return ProblemError(f"{path}: cannot be parsed: {error}")


def _missing(path: Path, names: Iterable[str]) -> ProblemError:
    listed = ", ".join(f"`{name}`" for name in names)
    return ProblemError(
        f"{path}: no {listed}. A problem is a module that defines class Model, get_inputs() and get_init_inputs()."
    )


def load(path: Path) -> ProblemModule:
    """Execute a *trusted* reference module under a module name of its own.

    Raises ProblemError that names the file: unreadable, not UTF-8, a syntax error (with its line), an exception
    while it runs (with its line), or a missing name. Imports torch where the module does.
    """
    data, text = _read_source(path)
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _syntax_problem(path, error) from None
    digest = hashlib.sha256(data).hexdigest()
    module = types.ModuleType(f"kbverified_problem_{path.stem}_{digest[:12]}_{next(_load_counter)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and inspect look the module up by its name
    try:
        exec(code, module.__dict__)
        missing = [name for name in REQUIRED_NAMES if not callable(getattr(module, name, None))]
        if missing:
            raise _missing(path, missing)
    except ProblemError:
        del sys.modules[module.__name__]
        raise
    except (Exception, SystemExit) as error:  # whatever a module can raise makes it an unusable problem
        del sys.modules[module.__name__]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise ProblemError(f"{where}: raised {type(error).__name__} when it was imported: {error}") from error
    return ProblemModule(path, digest, module, module.Model, module.get_inputs, module.get_init_inputs)


def static_check(path: Path) -> None:
    """Check a problem without executing it or importing torch: it parses and binds the three names.

    Raises ProblemError like ``load``.
    """
    _, text = _read_source(path)
    check_source(path, text)


def check_source(path: Path, text: str) -> None:
    """``static_check`` for a source that lies in memory; ``path`` only names it in errors."""
    try:
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        raise _syntax_problem(path, error) from None
    bound = module_level_names(tree)
    missing = [name for name in REQUIRED_NAMES if name not in bound]
    if missing and "*" not in bound:
        raise _missing(path, missing)


class ManifestRow(Record):
    """One problem of a suite as it was imported."""

    problem: str = Field(pattern=f"^{PROBLEM_PATTERN}$")
    name: str = Field(min_length=1)
    level: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    source: str = Field(min_length=1)
    """Where the bytes come from: commit and path, file and row, or a sentence."""

    @field_validator("name", "source")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if re.search(r"[\x00-\x1f]", value):
            raise ValueError("control characters are not allowed")
        return value

    @model_validator(mode="after")
    def _level_agrees(self) -> ManifestRow:
        if not self.problem.startswith(f"level{self.level}_"):
            raise ValueError(f"level {self.level} is not that of {self.problem}")
        return self


COLUMNS = tuple(ManifestRow.model_fields)


def manifest_path(root: Path, suite: str) -> Path:
    return root / "problems" / suite / "manifest.csv"


def read_manifest(path: Path) -> dict[str, ManifestRow]:
    """Rows by problem, in the file's order.

    Raises ManifestError with file, row, column and value; FileNotFoundError where there is no manifest.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 at byte {error.start}. Import the suite again.") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, [])
    if tuple(header) != COLUMNS:
        raise ManifestError(f"{path}: row 1: columns are {','.join(header)!r}, expected {','.join(COLUMNS)!r}")
    rows: dict[str, ManifestRow] = {}
    for cells in reader:
        where = f"{path}: row {reader.line_num}"
        if not cells:
            continue
        if len(cells) != len(COLUMNS):
            raise ManifestError(f"{where}: {len(cells)} cells, expected {len(COLUMNS)} ({','.join(COLUMNS)})")
        try:
            row = ManifestRow(**dict(zip(COLUMNS, cells)))  # type: ignore[arg-type]
        except ValidationError as error:
            first = error.errors()[0]
            column = str(first["loc"][0]) if first["loc"] else "level"
            value = cells[COLUMNS.index(column)]
            raise ManifestError(f"{where}: column {column}: {first['msg']} (value {value!r})") from None
        if row.problem in rows:
            raise ManifestError(f"{where}: column problem: {row.problem!r} is listed twice. Remove one row.")
        rows[row.problem] = row
    return rows


def manifest_text(rows: Iterable[ManifestRow]) -> str:
    """The rows as CSV, ordered by level and number."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sorted(rows, key=lambda row: (row.level, int(row.problem.split("_")[1]))):
        writer.writerow([getattr(row, column) for column in COLUMNS])
    return buffer.getvalue()
