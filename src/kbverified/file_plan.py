"""Writing many files as one step: compared with what is there, staged on the same disk, then renamed one by one.

A full disk or a kill while staging leaves everything as it was; a kill between two renames leaves whole files only,
and the same import run again completes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kbverified import incoming
from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INFRASTRUCTURE


class ImportReport(Protocol):
    """What an import says of itself: its text is the counts."""

    @property
    def warnings(self) -> Iterable[str]: ...


class ImportRefused(ValueError):
    """An import that was not done. The message names the file, the place in it, the value and what to do."""


@dataclass(frozen=True)
class Comparison:
    """How the files to be written stand to those that are there."""

    new: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    differing: tuple[Path, ...]


def compare(files: Mapping[Path, bytes]) -> Comparison:
    """Sort the paths by what lies there now: nothing, the same bytes, or other bytes. Raises OSError."""
    new, unchanged, differing = [], [], []
    for path, data in files.items():
        if not os.path.lexists(path):
            new.append(path)
        elif path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            unchanged.append(path)
        else:
            differing.append(path)
    return Comparison(tuple(new), tuple(unchanged), tuple(differing))


def commit(files: Mapping[Path, bytes], folder: Path) -> None:
    """Write all files, in their order, each atomically, after all of them are safe on disk below ``folder``.

    ``folder`` and the files share a file system. Raises OSError, and then (unless a rename failed) nothing changed.
    """
    if not files:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with incoming.staging(folder) as staging:
        staged = {}
        for index, (path, data) in enumerate(files.items()):
            staged[path] = staging / str(index)
            with open(staged[path], "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, temporary in staged.items():
            os.replace(temporary, path)


def name_some(items: Iterable[object], limit: int = 5) -> str:
    """The first few items in words, and how many more there are."""
    listed = [str(item) for item in items]
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


def report_import(command: str, importing: Callable[[], ImportReport]) -> int:
    """Run an import and print what came of it; the command's exit code.

    0: done; 2: refused, nothing written; 75: the disk did not play along.
    """
    try:
        report = importing()
    except (ValueError, FileNotFoundError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"{command}: {error}. What was imported before is untouched; run it again.", file=sys.stderr)
        return EXIT_INFRASTRUCTURE
    for warning in report.warnings:
        print(f"{command}: {warning}", file=sys.stderr)
    print(report)
    return 0
