"""Existing candidates in: KernelBench run directories and JSON lines.

Everything is collected and compared first; nothing is written unless all of it can be. A sample that differs from
the one that is there is never replaced without being told to, whether it was edited or comes from another run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kbverified.extraction import extract
from kbverified.file_plan import ImportRefused, commit, compare, name_some, report_import
from kbverified.json_lines import integer_field, read_json_lines
from kbverified.keys import CandidateKey
from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.records.files import RecordError, read
from kbverified.records.generation import Generation

RUN_FILE = re.compile(r"level_([0-9]+)_problem_([0-9]+)_sample_([0-9]+)_kernel\.py")
"""How KernelBench names the generations in a run directory."""

OnDifference = Literal["refuse", "keep", "replace"]


@dataclass(frozen=True)
class SourceSample:
    """One candidate as a source holds it, and the code found in it."""

    key: CandidateKey
    source: str
    data: bytes
    how: Literal["verbatim", "fence", "none"]
    detail: str | None


@dataclass(frozen=True)
class RunImport:
    """What an import did: counts, and what a reader should know."""

    generator: str
    suite: str
    new: int
    unchanged: int
    replaced: int
    kept: int
    without_code: int
    warnings: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return (
            f"{self.generator}/{self.suite}: {self.new} candidates new, {self.unchanged} unchanged, "
            f"{self.replaced} replaced, {self.kept} kept though they differ; "
            f"{self.without_code} of the source have no code"
        )


def import_run_directory(
    directory: Path, generator: str, suite: str, root: Path, on_difference: OnDifference = "refuse"
) -> RunImport:
    """Import ``level_{L}_problem_{P}_sample_{S}_kernel.py``, also from folders below.

    Raises ImportRefused (nothing was written), ValueError for a name that no key allows, OSError.
    """
    samples, ignored = [], []
    for path in sorted(directory.rglob("*.py")):
        match = RUN_FILE.fullmatch(path.name)
        if not match:
            ignored.append(path.relative_to(directory))
            continue
        level, problem, sample = map(int, match.groups())
        key = CandidateKey(generator, suite, f"level{level}_{problem}", sample)
        source = f"{directory.resolve().name}/{path.relative_to(directory).as_posix()}"
        samples.append(_sample(key, source, path.read_bytes()))
    if not samples:
        raise ImportRefused(
            f"{directory}: no level_<L>_problem_<P>_sample_<S>_kernel.py in it or below"
            + (f"; there are {name_some(ignored)}" if ignored else "")
        )
    warnings = [f"{len(ignored)} other Python files were left out: {name_some(ignored)}"] if ignored else []
    return _write(samples, generator, suite, root, on_difference, warnings)


def import_jsonl(
    path: Path,
    generator: str,
    suite: str,
    root: Path,
    field: str = "custom_code",
    on_difference: OnDifference = "refuse",
) -> RunImport:
    """Import one field of JSON lines with ``level_id`` and ``task_id``; ``sample_id`` where there is one, else 0.

    null, "None" and blank are candidates without code. Raises ImportRefused (nothing was written), ValueError, OSError.
    """
    samples, seen = [], False
    names: set[str] = set()
    for number, row in read_json_lines(path):
        where = f"{path}: line {number}"
        problem = f"level{integer_field(row, 'level_id', where)}_{integer_field(row, 'task_id', where)}"
        sample = integer_field(row, "sample_id", where) if "sample_id" in row else 0
        code = row.get(field)
        if code is not None and not isinstance(code, str):
            raise ImportRefused(f"{where}: field {field} is not text (value {str(code)[:60]!r})")
        seen, names = seen or field in row, names | set(row)
        source = f"{path.name}: line {number}, {field}"
        # A lone surrogate is legal JSON and no UTF-8: such bytes are kept, and judged later.
        data = None if code is None else code.encode("utf-8", "surrogatepass")
        samples.append(_sample(CandidateKey(generator, suite, problem, sample), source, data))
    if not seen:
        raise ImportRefused(
            f"{path}: no line has a field {field!r}; there are {', '.join(sorted(names)) or 'no lines'}"
        )
    return _write(samples, generator, suite, root, on_difference, [])


def _sample(key: CandidateKey, source: str, data: bytes | None) -> SourceSample:
    """Find the code; bytes that are no UTF-8, or too many, are kept as they are, for the compile stage to judge."""
    if data is None:
        found = extract(None)
    elif len(data) > CANDIDATE_SIZE_LIMIT_BYTES:
        return SourceSample(key, source, data, "verbatim", f"{len(data)} bytes: over the limit for candidates")
    else:
        try:
            found = extract(data.decode())
        except UnicodeDecodeError as error:
            return SourceSample(key, source, data, "verbatim", f"not UTF-8 at byte {error.start}")
    return SourceSample(key, source, found.code.encode(), found.how, found.detail)


def candidate_files(key: CandidateKey, root: Path, data: bytes, generation: Generation) -> dict[Path, bytes]:
    """The candidate's two files, the metadata first: a source never lies there without it."""
    text = json.dumps(generation.model_dump(mode="json"), indent=1) + "\n"
    return {key.metadata_path(root): text.encode(), key.source_path(root): data}


def is_edited(key: CandidateKey, root: Path) -> bool:
    """Whether a candidate's source is no longer what its metadata says it was. Without valid metadata: True."""
    try:
        generation = read(key.metadata_path(root), Generation)
    except (FileNotFoundError, RecordError):
        return True
    return not is_of(key.source_path(root), generation)


def is_of(source: Path, generation: Generation) -> bool:
    """Whether a source is what its metadata says it was. Raises FileNotFoundError."""
    return hashlib.sha256(source.read_bytes()).hexdigest() == generation.candidate_sha256


def _distinct(samples: Iterable[SourceSample]) -> dict[CandidateKey, SourceSample]:
    by_key: dict[CandidateKey, SourceSample] = {}
    for sample in samples:
        first = by_key.setdefault(sample.key, sample)
        if first.data != sample.data:
            raise ImportRefused(
                f"{sample.key}: two different sources for this sample: {first.source} and {sample.source}. "
                "Nothing was written. Remove one, or import them under two generator names."
            )
    return by_key


def _write(
    samples: Iterable[SourceSample],
    generator: str,
    suite: str,
    root: Path,
    on_difference: OnDifference,
    warnings: list[str],
) -> RunImport:
    by_path = {key.source_path(root): sample for key, sample in _distinct(samples).items()}
    found = compare({path: sample.data for path, sample in by_path.items()})
    if found.differing and on_difference == "refuse":
        edited = sum(is_edited(by_path[path].key, root) for path in found.differing)
        raise ImportRefused(
            f"{len(found.differing)} candidates of {generator}/{suite} are there with other content "
            f"({edited} of them edited since they were written): {name_some(found.differing)}. Nothing was written. "
            "Use another generator name, --keep (keep those, import the rest), or --force (replace them)."
        )
    to_write: dict[Path, bytes] = {}
    replaced = found.differing if on_difference == "replace" else ()
    stale = [path for path in found.unchanged if is_edited(by_path[path].key, root)]
    for path in (*found.new, *replaced, *stale):
        sample = by_path[path]
        generation = Generation(
            origin="import",
            source=sample.source,
            candidate_sha256=hashlib.sha256(sample.data).hexdigest(),
            extraction=sample.how,
            detail=sample.detail,
        )
        to_write.update(candidate_files(sample.key, root, sample.data, generation))
    commit(to_write, root / "generations")
    return RunImport(
        generator,
        suite,
        new=len(found.new),
        unchanged=len(found.unchanged),
        replaced=len(replaced),
        kept=len(found.differing) - len(replaced),
        without_code=sum(sample.how == "none" for sample in by_path.values()),
        warnings=(*warnings, *_unknown_problems((s.key for s in by_path.values()), suite, root)),
    )


def _unknown_problems(keys: Iterable[CandidateKey], suite: str, root: Path) -> list[str]:
    if not (root / "problems" / suite).is_dir():
        return [f"suite {suite} is not there yet: kbverified import-problems --suite {suite} --from PATH"]
    unknown = Counter(k.problem for k in keys if not k.problem_key.source_path(root).is_file())
    return (
        [f"suite {suite} has no {name_some(sorted(unknown))}; their candidates will not be evaluated"]
        if unknown
        else []
    )


def add_parser(subparsers: Any) -> None:
    """Add ``import-runs`` to the command line."""
    parser = subparsers.add_parser(
        "import-runs", help="import candidates from a KernelBench run directory or JSON lines"
    )
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="PATH")
    parser.add_argument("--generator", required=True, help="name of the generator, a folder under generations/")
    parser.add_argument("--suite", required=True, help="suite whose problems the candidates answer")
    parser.add_argument("--field", default="custom_code", help="JSON lines: field that holds the source")
    parser.add_argument("--root", type=Path, default=Path("."))
    differing = parser.add_mutually_exclusive_group()
    differing.add_argument("--force", action="store_const", const="replace", dest="on_difference", default="refuse")
    differing.add_argument("--keep", action="store_const", const="keep", dest="on_difference")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import, print counts; the exit code of ``file_plan.report_import``."""
    return report_import("import-runs", lambda: _import(args))


def _import(args: argparse.Namespace) -> RunImport:
    CandidateKey(args.generator, args.suite, "level1_1", 0)  # names are checked before anything is read
    if args.source.is_dir():
        return import_run_directory(args.source, args.generator, args.suite, args.root, args.on_difference)
    return import_jsonl(args.source, args.generator, args.suite, args.root, args.field, args.on_difference)
