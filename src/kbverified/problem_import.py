"""Problems in: from a KernelBench checkout, from its Hugging Face parquet, from JSON lines.

Each importer collects everything first; nothing is written unless all of it can be. Bytes are kept as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbverified.file_plan import ImportRefused, commit, compare, name_some, report_import
from kbverified.git_source import Commit
from kbverified.json_lines import integer_field, read_json_lines
from kbverified.keys import ProblemKey
from kbverified.problems import (
    ManifestRow,
    ProblemError,
    check_source,
    manifest_path,
    manifest_text,
    read_manifest,
)

DEFAULT_LEVELS = (1, 2, 3)
"""Level 4 asks for whole Hugging Face models and is not among the 250 problems of the benchmark."""

PARQUET_COLUMNS = ("code", "level", "name", "problem_id")
"""Of the dataset ScalingIntelligence/KernelBench, split ``level_{L}`` per file; a name is ``19_ReLU``, without .py."""


@dataclass(frozen=True)
class SourceProblem:
    """One problem as a source holds it."""

    key: ProblemKey
    name: str
    source: str
    """Goes to the manifest: commit and path, or file and row."""
    data: bytes


@dataclass(frozen=True)
class ProblemImport:
    """What an import did: counts, and what a reader should know."""

    suite: str
    new: int
    unchanged: int
    replaced: int
    warnings: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.suite}: {self.new} problems new, {self.unchanged} unchanged, {self.replaced} replaced"


def import_checkout(
    checkout: Path, suite: str, root: Path, levels: Sequence[int] = DEFAULT_LEVELS, force: bool = False
) -> ProblemImport:
    """Import ``level{L}/{P}_{name}.py`` below a KernelBench checkout or its ``KernelBench/`` folder.

    Raises ImportRefused (nothing was written), OSError.
    """
    folder = next((f for f in (checkout / "KernelBench", checkout) if any(f.glob("level[0-9]*/*.py"))), None)
    if folder is None:
        raise ImportRefused(f"{checkout}: no level<L>/<P>_<name>.py in it nor in its KernelBench folder.")
    committed = Commit(folder)
    problems, warnings = [], []
    for level in levels:
        paths = sorted((folder / f"level{level}").glob("*.py"))
        if not paths:
            raise ImportRefused(f"{folder / f'level{level}'}: no problems. Choose other levels: --levels 1,2,3")
        for path in paths:
            match = re.fullmatch(r"([0-9]+)_(.+)\.py", path.name)
            if not match:
                warnings.append(f"{path}: ignored, its name is not <P>_<name>.py")
                continue
            key = ProblemKey(suite, f"level{level}_{int(match[1])}")
            data = path.read_bytes()
            problems.append(SourceProblem(key, match[2], committed.name_source(path, data), data))
    return _write(problems, suite, root, force, warnings)


def import_parquet(
    paths: Path | Sequence[Path],
    suite: str,
    root: Path,
    levels: Sequence[int] = DEFAULT_LEVELS,
    force: bool = False,
) -> ProblemImport:
    """Import the Hugging Face dataset's parquet: one file per level or all in one, or a folder that holds them.

    Raises ImportRefused (nothing was written), OSError.
    """
    given = [paths] if isinstance(paths, Path) else list(paths)
    files = [f for path in given for f in (sorted(path.rglob("*.parquet")) if path.is_dir() else [path])]
    if not files:
        raise ImportRefused(f"{name_some(given)}: no parquet file there.")
    problems, skipped = [], 0
    for path in files:
        for number, row in enumerate(_parquet_rows(path), start=1):
            where = f"{path}: row {number}"
            level = integer_field(row, "level", where)
            if level not in levels:
                skipped += 1
                continue
            problem = integer_field(row, "problem_id", where)
            key = ProblemKey(suite, f"level{level}_{problem}")
            name = re.sub(r"^[0-9]+_", "", row["name"] or "").removesuffix(".py") or key.problem
            source = f"{path.name}: row {number}"
            problems.append(SourceProblem(key, name, source, _encode(row["code"], f"{where}: column code")))
    return _write(problems, suite, root, force, _levels_warning(skipped, levels))


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path)
        missing = [column for column in PARQUET_COLUMNS if column not in table.schema_arrow.names]
        if missing:
            raise ImportRefused(
                f"{path}: no column {name_some(missing)}; it has {name_some(table.schema_arrow.names, 12)}."
            )
        rows: list[dict[str, Any]] = table.read(columns=list(PARQUET_COLUMNS)).to_pylist()
    except pyarrow.ArrowException as error:
        raise ImportRefused(f"{path}: not a readable parquet file: {str(error)[:200]}") from None
    return rows


def import_jsonl(
    path: Path, suite: str, root: Path, levels: Sequence[int] = DEFAULT_LEVELS, force: bool = False
) -> ProblemImport:
    """Import JSON lines with ``level_id``, ``task_id``, ``ref_code`` (and ``name``, where there is one).

    Raises ImportRefused (nothing was written), OSError.
    """
    problems, skipped = [], 0
    for number, row in read_json_lines(path):
        where = f"{path}: line {number}"
        level = integer_field(row, "level_id", where)
        if level not in levels:
            skipped += 1
            continue
        key = ProblemKey(suite, f"level{level}_{integer_field(row, 'task_id', where)}")
        name = row.get("name")
        data = _encode(row.get("ref_code"), f"{where}: field ref_code")
        problems.append(
            SourceProblem(
                key, name if isinstance(name, str) and name else key.problem, f"{path.name}: line {number}", data
            )
        )
    return _write(problems, suite, root, force, _levels_warning(skipped, levels))


def _encode(code: object, where: str) -> bytes:
    if not isinstance(code, str) or not code.strip():
        raise ImportRefused(f"{where}: no source in it (value {str(code)[:60]!r})")
    try:
        return code.encode()
    except UnicodeEncodeError as error:
        raise ImportRefused(f"{where}: no valid Unicode at character {error.start}") from None


def _levels_warning(skipped: int, levels: Sequence[int]) -> list[str]:
    asked = ",".join(map(str, levels))
    return [f"{skipped} problems of other levels than {asked} were left out (--levels)"] if skipped else []


def _write(
    problems: Iterable[SourceProblem], suite: str, root: Path, force: bool, warnings: Iterable[str]
) -> ProblemImport:
    by_key: dict[ProblemKey, SourceProblem] = {}
    for problem in problems:
        first = by_key.setdefault(problem.key, problem)
        if first.data != problem.data:
            raise ImportRefused(
                f"{problem.key}: two different sources for it: {first.source} and {problem.source}. "
                "Nothing was written. Remove one of them."
            )
    if not by_key:
        raise ImportRefused(f"suite {suite}: nothing to import. Nothing was written.")
    files = {key.source_path(root): problem.data for key, problem in by_key.items()}
    found = compare(files)
    if found.differing and not force:
        raise ImportRefused(
            f"{len(found.differing)} problems of suite {suite} are there with other content: "
            f"{name_some(found.differing)}. Nothing was written. Import under another suite name, or use --force."
        )
    manifest = manifest_path(root, suite)
    try:
        rows = read_manifest(manifest)
    except FileNotFoundError:
        rows = {}
    for key, problem in by_key.items():
        digest = hashlib.sha256(problem.data).hexdigest()
        old = rows.get(key.problem)
        if old is None or old.sha256 != digest:
            rows[key.problem] = ManifestRow(
                problem=key.problem, name=problem.name, level=key.level, sha256=digest, source=problem.source
            )
    to_write = {path: files[path] for path in (*found.new, *found.differing)}
    text = manifest_text(rows.values()).encode()
    if compare({manifest: text}).unchanged == ():
        to_write[manifest] = text
    commit(to_write, root / "problems")
    return ProblemImport(
        suite, len(found.new), len(found.unchanged), len(found.differing), (*warnings, *_unusable(by_key, root))
    )


def _unusable(problems: dict[ProblemKey, SourceProblem], root: Path) -> list[str]:
    """What the problem audit will have to say about some of them, said early."""
    sentences = []
    for key, problem in problems.items():
        try:
            check_source(key.source_path(root), problem.data.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            sentences.append(f"{key.source_path(root)}: not UTF-8 at byte {error.start}")
        except ProblemError as error:
            sentences.append(str(error))
    return sentences


def parse_levels(text: str) -> tuple[int, ...]:
    """``1,2,3`` as numbers, for argparse."""
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", text):
        raise argparse.ArgumentTypeError(f"levels {text!r} are not numbers with commas between, such as 1,2,3")
    return tuple(int(part) for part in text.split(","))


def add_parser(subparsers: Any) -> None:
    """Add ``import-problems`` to the command line."""
    parser = subparsers.add_parser(
        "import-problems", help="import a problem suite from a KernelBench checkout, its parquet, or JSON lines"
    )
    parser.add_argument("--from", dest="source", type=Path, nargs="+", required=True, metavar="PATH")
    parser.add_argument("--suite", required=True, help="name of the suite, a folder under problems/")
    parser.add_argument("--levels", type=parse_levels, default=DEFAULT_LEVELS, help="default 1,2,3")
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--force", action="store_true", help="replace problems that differ")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import, print counts; the exit code of ``file_plan.report_import``."""
    return report_import("import-problems", lambda: _import(args))


def _import(args: argparse.Namespace) -> ProblemImport:
    first = args.source[0]
    options = {"levels": args.levels, "force": args.force}
    ProblemKey(args.suite, "level1_1")  # a suite's name is checked before anything is read
    if first.suffix == ".parquet" or (first.is_dir() and any(first.rglob("*.parquet"))):
        return import_parquet(args.source, args.suite, args.root, **options)
    if len(args.source) > 1:
        raise ImportRefused("more than one --from path is for parquet files only")
    if first.is_dir():
        return import_checkout(first, args.suite, args.root, **options)
    return import_jsonl(first, args.suite, args.root, **options)
