"""Files, folders and bytes that a run has left, by what they are, and per candidate: for the cost model.

    python -m benchmarks.tree [ROOT]

``ROOT``: a project folder with ``results/`` (default: this one). Bytes on disk are blocks, as the file system says.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.summaries import table
from kbverified.keys import STAGES


@dataclass
class Kind:
    """One kind of file, added up."""

    files: int = 0
    folders: int = 0
    size: int = 0
    on_disk: int = 0

    def add(self, path: Path) -> None:
        status = path.lstat()
        self.size += status.st_size
        self.on_disk += status.st_blocks * 512
        self.files += 1


def places(root: Path) -> Iterator[tuple[str, Path]]:
    """Every folder of a run, and what it is called in the table."""
    for top in ("results", "logs", "benchmarks/out"):
        for stage in STAGES:
            yield f"{top}/{stage}", root / top / stage
    yield from ((name, root / name) for name in (".snakemake/metadata", ".build/candidates"))


def measure(root: Path) -> dict[str, Kind]:
    """Files below each place, with the folders that hold them."""
    found: dict[str, Kind] = {}
    for name, place in places(root):
        kind = found.setdefault(name, Kind())
        for folder, folders, files in os.walk(place):
            kind.folders += len(folders)
            for file in files:
                kind.add(Path(folder) / file)
    return found


def candidates(root: Path) -> int:
    """How many have a compile record."""
    return sum(1 for _ in (root / "results/compile").rglob("*.json"))


def text(found: dict[str, Kind], n: int) -> str:
    """A table: per file, and per candidate."""
    head = ("place", "files", "folders", "bytes a file", "on disk a file", "files a candidate", "on disk a candidate")
    rows = [
        (
            name,
            kind.files,
            kind.folders,
            round(kind.size / kind.files) if kind.files else None,
            round(kind.on_disk / kind.files) if kind.files else None,
            f"{kind.files / n:.2f}",
            round(kind.on_disk / n),
        )
        for name, kind in found.items()
    ]
    return table(head, rows)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tree", description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    root = parser.parse_args(words).root
    n = candidates(root)
    if not n:
        print(f"{root}/results/compile has no record: run snakemake there first", file=sys.stderr)
        return 1
    print(f"{n} candidates\n\n{text(measure(root), n)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
