"""``merge-records``: unpack the records of several archives into one tree and recompute every table. Torch-free."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kbverified.archive import ArchiveError, Place, place, read
from kbverified.exit_codes import EXIT_BAD_INPUT
from kbverified.keys import BASELINE_STAGES, CandidateKey, ProblemKey
from kbverified.records.files import RecordError, write_text

Conflict = Literal["newest", "error"]
KEPT = ("audit", "ceilings", "record", "generation")
"""What of an archive goes into the tree."""


class MergeConflict(ValueError):
    """Two records for one place that cannot both hold. The message names both and what to do."""


@dataclass
class Merged:
    """What a merge did."""

    counts: Counter[str] = field(default_factory=Counter)
    """new, identical, replaced, older."""
    messages: list[str] = field(default_factory=list)
    touched: set[CandidateKey] = field(default_factory=set)

    def __str__(self) -> str:
        return ", ".join(f"{self.counts[what]} {what}" for what in ("new", "identical", "replaced", "older"))


def merge(archives: Iterable[Path], root: Path, on_conflict: Conflict = "newest") -> Merged:
    """Unpack records, audits, ceilings and candidates' metadata of the archives into root.

    The same record twice is fine. Of two that differ the one that started later stays, with a message, or, with
    ``error``, MergeConflict is raised. Two sources under one candidate key whose records started at the same time
    are always a conflict. Every archive is read and checked in full before its first record is written.
    Raises ArchiveError, RecordError, MergeConflict, OSError.
    """
    result = Merged()
    for path in archives:
        members = [(found, data) for found, data in read(path) if found.kind in KEPT]
        for found, data in members:
            found.parse(data, str(path))
        for found, data in members:
            _merge_one(found, data, path, root, on_conflict, result)
    result.messages.extend(_mixed_sources(sorted(result.touched), root))
    return result


def _merge_one(found: Place, data: bytes, source: Path, root: Path, on_conflict: Conflict, result: Merged) -> None:
    target = root / found.name
    if found.candidate is not None:
        result.touched.add(found.candidate)
    if not target.exists():
        write_text(target, data.decode())
        result.counts["new"] += 1
        return
    there, new = json.loads(target.read_bytes()), json.loads(data)
    if there == new:
        result.counts["identical"] += 1
        return
    if found.kind == "generation":
        _merge_generation(found, there, new, source, result)
        return
    before, after = (str(record["provenance"]["started_at"]) for record in (there, new))
    if on_conflict == "error" or before == after:
        raise MergeConflict(
            f"{source}: {found.name} differs from {target} (started {after} and {before}). "
            "Leave one of the archives out, or run with --on-conflict newest where the times differ."
        )
    if after > before:
        write_text(target, data.decode())
        result.counts["replaced"] += 1
        result.messages.append(f"{found.name}: {after} from {source} replaces {before}")
    else:
        result.counts["older"] += 1
        result.messages.append(f"{found.name}: {after} from {source} is older than {before} and stays out")


def _merge_generation(found: Place, there: dict[str, Any], new: dict[str, Any], source: Path, result: Merged) -> None:
    """Metadata has no time of its own: the same source may be described twice, another source may not."""
    if there["candidate_sha256"] != new["candidate_sha256"]:
        raise MergeConflict(
            f"{source}: {found.name} describes another source (sha256 {new['candidate_sha256'][:12]}) than the one "
            f"there (sha256 {there['candidate_sha256'][:12]}). Two candidates cannot share a key: import one of them "
            "under another generator or sample, or merge into an empty folder."
        )
    result.counts["older"] += 1
    result.messages.append(f"{found.name}: described differently in {source}; the description there stays")


def _mixed_sources(touched: Iterable[CandidateKey], root: Path) -> list[str]:
    """Candidates whose records are about more than one source: an edited candidate, not yet fully rerun."""
    messages = []
    for key in touched:
        sources: dict[str, list[str]] = {}
        for path in sorted(root.glob(f"results/*/{key.tail}.json")):
            found = place(path.relative_to(root).as_posix())
            if found is None or found.candidate is None:
                continue
            sha256 = json.loads(path.read_bytes())["provenance"]["candidate_sha256"]
            sources.setdefault(str(sha256)[:12], []).append(str(found.stage))
        if len(sources) > 1:
            stages = "; ".join(f"{sha256}: {', '.join(names)}" for sha256, names in sources.items())
            messages.append(f"{key}: records of different sources ({stages}). Rerun it before you believe its row.")
    return messages


# --- tables -------------------------------------------------------------------------------------------------
def recompute_tables(root: Path, config: Path) -> Path:
    """Every table anew from all records under root: Parquet per generator, then the leaderboard.

    No selection of the configuration applies here, only what interprets records (tau, headline arm, mixed
    environments); every optional baseline counts of which there is a record. Writes root/results/kernels/ and
    root/results/leaderboard.*; returns root/results.
    Raises RecordError, MixedEnvironments, ConfigError (all ValueError) and OSError.
    """
    from kbverified import aggregation, leaderboard
    from kbverified.config_files import load_settings

    chosen = load_settings(config)
    results = root / "results"
    candidates, problems = records_under(root)
    measured = [n for n, s in BASELINE_STAGES.items() if any(key.record_path(s, root).exists() for key in candidates)]
    settings = aggregation.AggregationSettings.model_validate(
        chosen.aggregation() | {"baselines": sorted({*chosen.baselines, *measured})}
    )
    tables = {}
    for generator in sorted({key.generator for key in candidates}):
        keys = [key for key in candidates if key.generator == generator]
        tables[generator] = aggregation.aggregate_generator(root, generator, keys, settings)
        aggregation.write_parquet(tables[generator], results / "kernels" / f"{generator}.parquet")
    leaderboard.write(leaderboard.build(tables, aggregation.load_problems(root, problems), settings), results)
    return results


def records_under(root: Path) -> tuple[list[CandidateKey], list[ProblemKey]]:
    """Candidates of which any stage record lies under root, and the problems that are audited or have one."""
    candidates: set[CandidateKey] = set()
    problems: set[ProblemKey] = set()
    for path in root.glob("results/*/**/*.json"):
        found = place(path.relative_to(root).as_posix())
        if found is not None and found.problem is not None:
            problems.add(found.problem)
            if found.candidate is not None:
                candidates.add(found.candidate)
    return sorted(candidates), sorted(problems)


# --- command ------------------------------------------------------------------------------------------------
def add_parser(subparsers: Any) -> None:
    """Add ``merge-records`` to the commands of the CLI."""
    parser = subparsers.add_parser(
        "merge-records",
        help="unpack archives of records into one tree and recompute every table",
        description="Unpack the records of several archives into one tree and recompute every table.",
    )
    parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE", help="records-*.tar.xz")
    parser.add_argument(
        "--into", type=Path, default=Path("."), metavar="ROOT", help="tree that gets results/ (default: here)"
    )
    parser.add_argument(
        "--on-conflict",
        choices=("newest", "error"),
        default="newest",
        help="of two differing records for one place: keep the one that started later, or stop (default: newest)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("config/config.yaml"),
        help="for the tables: tau, headline arm, mixed environments",
    )
    parser.add_argument("--no-tables", action="store_true", help="unpack only")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command. Returns the exit code: 0, or 2 for archives that cannot be merged."""
    try:
        merged = merge(args.archives, args.into, args.on_conflict)
    except (ArchiveError, RecordError, MergeConflict, FileNotFoundError) as error:
        print(f"merge-records: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    for message in merged.messages:
        print(f"merge-records: {message}", file=sys.stderr)
    print(f"merge-records: {merged} in {args.into}")
    if args.no_tables:
        return 0
    try:
        results = recompute_tables(args.into, args.config)
    except (ValueError, FileNotFoundError) as error:
        print(f"merge-records: the records are unpacked, the tables are not made: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    from kbverified import leaderboard

    return leaderboard.run(argparse.Namespace(results=results))
