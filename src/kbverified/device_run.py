"""``device-run``: run a list of problems and candidates on a GPU machine that is there for some minutes only.

One call takes one shard of the list, runs it through the workflow, stops in time and always packs what is there;
given the archives of earlier calls, a fresh machine goes on where the last one stopped. ``merge-records`` puts the
archives of all shards together. Torch-free: Snakemake's jobs import torch, not this.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbverified import archive, run_report
from kbverified.archive import ArchiveError, place
from kbverified.config import ConfigError
from kbverified.config_files import baselines_of
from kbverified.deadline import Ended, Told, run_until, told_by_signal
from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INCOMPLETE
from kbverified.keys import STAGES, CandidateKey, ProblemKey, stages_with
from kbverified.records.files import RecordError
from kbverified.run_state import Restored, restore, state_members

PROGRESS_EVERY_S = 20.0
KEPT_LOG_BYTES = 8 << 10
"""End of the log of each job that left no record."""
KEPT_WORKFLOW_LOG_BYTES = 64 << 10


class ListError(ValueError):
    """A list, shard or time that cannot be run. The message names file, line and value."""


@dataclass(frozen=True)
class Plan:
    """What one shard is about, in the order of the list."""

    audits: tuple[ProblemKey, ...]
    """Problems whose audit is asked for by itself."""
    candidates: tuple[CandidateKey, ...]
    stages: tuple[str, ...] = STAGES
    """What each candidate goes through: more where the configuration names optional baselines."""

    def targets(self) -> list[str]:
        """Record paths that Snakemake is asked for, audits first, each candidate's stages together."""
        paths = [key.record_path() for key in self.audits]
        paths += [key.record_path(stage) for key in self.candidates for stage in self.stages]
        return [path.as_posix() for path in paths]

    def records(self) -> list[str]:
        """Record paths that belong to this shard: the targets and the audits that candidates need."""
        needed = {key.problem_key: None for key in self.candidates}
        extra = [key.record_path().as_posix() for key in needed if key not in set(self.audits)]
        return extra + self.targets()


# --- what to run --------------------------------------------------------------------------------------------
def read_list(path: Path) -> tuple[list[ProblemKey], list[CandidateKey]]:
    """Problems (``kernelbench/level1_19``) and candidates (``generator/kernelbench/level1_19/0``), one a line.

    Blank lines and what follows ``#`` are ignored, repetitions count once. Raises ListError, FileNotFoundError.
    """
    problems: dict[ProblemKey, None] = {}
    candidates: dict[CandidateKey, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        parts = text.split("/")
        try:
            if len(parts) == 2:
                problems[ProblemKey(*parts)] = None
            else:
                candidates[CandidateKey.from_tail(text)] = None
        except ValueError as error:
            raise ListError(
                f"{path}:{number}: {text!r} is neither suite/problem nor generator/suite/problem/sample ({error})"
            ) from None
    if not problems and not candidates:
        raise ListError(f"{path}: no problem and no candidate in it")
    return list(problems), list(candidates)


def parse_shard(text: str) -> tuple[int, int]:
    """``i/n`` with 1 <= i <= n. Raises ListError."""
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    shard = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= shard[0] <= shard[1]:
        raise ListError(f"shard {text!r} is not i/n with 1 <= i <= n, as 1/4")
    return shard


def plan_shard(
    problems: Sequence[ProblemKey],
    candidates: Sequence[CandidateKey],
    shard: tuple[int, int],
    audits: bool = True,
    evaluate: bool = True,
    stages: tuple[str, ...] = STAGES,
) -> Plan:
    """Every n-th problem, in the order in which the list names them first, with all of its candidates.

    Without ``audits`` only the audits that candidates need are made, without ``evaluate`` only audits.
    """
    order = list(dict.fromkeys([*problems, *(key.problem_key for key in candidates)]))
    mine = set(order[shard[0] - 1 :: shard[1]])
    chosen = tuple(key for key in candidates if key.problem_key in mine) if evaluate else ()
    return Plan(tuple(key for key in order if key in mine) if audits else (), chosen, stages)


def check_sources(plan: Plan, root: Path) -> None:
    """Raises ListError where a source is not there: Snakemake would stop before its first job."""
    paths = [key.source_path(root) for key in plan.candidates]
    paths += [key.source_path(root) for key in dict.fromkeys([*plan.audits, *(k.problem_key for k in plan.candidates)])]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise ListError(
            f"{missing[0]} is not there, nor are {len(missing) - 1} others of this shard. Import the problems "
            "(import-problems) and the candidates (import-runs) on this machine first, or mend the list."
        )


def stages_of(config: Path, root: Path) -> tuple[str, ...]:
    """The stages under a configuration, as Snakemake merges it with the tree's own. Raises ConfigError."""
    own = root / "config" / "config.yaml"
    return stages_with(baselines_of(*[path for path in (own, root / config) if path.is_file()]))


# --- running ------------------------------------------------------------------------------------------------
def snakemake_command(
    targets: Sequence[str], config: Path, cores: int, gpus: int, extra: Sequence[str] = ()
) -> list[str]:
    """Snakemake for these targets. ``gpus`` bounds how many GPU jobs run at a time; 0 leaves it to the profile."""
    command = [sys.executable, "-m", "snakemake", *targets, "--cores", str(cores), "--configfile", str(config)]
    command += ["--keep-going", "--rerun-incomplete", "--scheduler", "greedy"]
    if gpus:
        command += ["--resources", f"gpu={gpus}"]
    return [*command, *extra]


class _Progress:
    """A line every 20 s: how many records there are and how long it may still take."""

    def __init__(self, root: Path, plan: Plan, label: str, stop_at_s: float) -> None:
        self._root, self._label, self._stop_at_s = root, label, stop_at_s
        self._targets = plan.targets()
        self._next_s = time.monotonic() + PROGRESS_EVERY_S

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + PROGRESS_EVERY_S
        there = sum((self._root / target).exists() for target in self._targets)
        left_s = max(0.0, self._stop_at_s - now)
        print(f"device-run {self._label}: {there} of {len(self._targets)} records, stops in {left_s:.0f} s", flush=True)


# --- packing ------------------------------------------------------------------------------------------------
def collect(root: Path, plan: Plan, workflow_log: Path) -> dict[str, bytes]:
    """Members of the shard's archive: its records, its candidates' metadata, ends of logs where a record is missing."""
    members: dict[str, bytes] = {}
    for name in plan.records():
        path = root / name
        if path.is_file():
            members[name] = path.read_bytes()
            continue
        log = Path("logs", *Path(name).with_suffix(".log").parts[1:])
        if (root / log).is_file():
            members[log.as_posix()] = _tail(root / log, KEPT_LOG_BYTES)
    for path in sorted(root.glob("results/ceilings/*.json")):
        if place(path.relative_to(root).as_posix()) is not None:
            members[path.relative_to(root).as_posix()] = path.read_bytes()
    for key in plan.candidates:
        path = key.metadata_path(root)
        if path.is_file():
            members[key.metadata_path().as_posix()] = path.read_bytes()
    if workflow_log.is_file():
        members["logs/snakemake.log"] = _tail(workflow_log, KEPT_WORKFLOW_LOG_BYTES)
    return members


def _tail(path: Path, size_bytes: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size_bytes))
        return file.read(size_bytes)


def pack_shard(out: Path, root: Path, plan: Plan, label: str, report: run_report.RunReport, log: Path) -> list[Path]:
    """Write ``records-{label}`` and, where Snakemake left notes, ``state-{label}``. Returns what was written."""
    members = collect(root, plan, log)
    members["report.json"] = report.model_dump_json(indent=1).encode() + b"\n"
    written, notes = archive.write(out, f"records-{label}", members)
    state = state_members(root, members.keys())  # a failed job has notes too, but no record
    if state:
        more, more_notes = archive.write(out, f"state-{label}", state)
        written, notes = written + more, notes + more_notes
    for note in notes:
        print(f"device-run: {note}", file=sys.stderr)
    return written


# --- command ------------------------------------------------------------------------------------------------
def add_parser(subparsers: Any) -> None:
    """Add ``device-run`` to the commands of the CLI."""
    parser = subparsers.add_parser(
        "device-run",
        help="run one shard of a list on a GPU machine within some minutes, and pack its records",
        description="Run one shard of a list of problems and candidates through the workflow within a time limit, "
        "and pack all raw records into one archive. See docs/gpu-runs.md.",
    )
    parser.add_argument("--list", required=True, type=Path, metavar="FILE", help="problems and candidates, one a line")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="gets the archives and Snakemake's log")
    parser.add_argument(
        "--shard", default="1/1", metavar="I/N", help="every N-th problem, from the I-th (default: 1/1)"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="the whole call ends within this (default: 9)")
    parser.add_argument("--config", type=Path, default=Path("config/kernelbench.yaml"), help="Snakemake's --configfile")
    parser.add_argument("--resume", type=Path, nargs="+", default=[], metavar="ARCHIVE", help="archives to go on from")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--audit-only", action="store_true", help="audit the problems, run no candidate")
    which.add_argument("--no-audit", action="store_true", help="only the audits that candidates need")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="for Snakemake (default: all)")
    parser.add_argument("--grace-s", type=float, default=45.0, help="for running jobs to end (default: 45)")
    parser.add_argument("--reserve-s", type=float, default=30.0, help="kept for packing (default: 30)")
    parser.add_argument("--snakemake", default="", metavar="ARGS", help="more arguments for Snakemake, in one string")
    parser.add_argument("--revision", help="for the report, where the checkout came without git")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, root: Path = Path(".")) -> int:
    """Run the command. Returns 0: every record of the shard is there; 1: some are missing; 2: bad input."""
    begin_s = time.monotonic()
    started_at = datetime.now(UTC)
    try:
        shard = parse_shard(args.shard)
        problems, candidates = read_list(args.list)
        if not (root / args.config).is_file():
            raise ListError(f"{args.config} is not there; name a configuration with --config")
        stages = stages_of(args.config, root)
        plan = plan_shard(
            problems, candidates, shard, audits=not args.no_audit, evaluate=not args.audit_only, stages=stages
        )
        check_sources(plan, root)
        kill_at_s = begin_s + 60 * args.minutes - args.reserve_s
        stop_at_s = kill_at_s - args.grace_s
        if stop_at_s <= begin_s:
            raise ListError(
                f"{args.minutes} minutes leave no time beside {args.grace_s} s grace, {args.reserve_s} s reserve"
            )
        restored = restore(args.resume, root, set(plan.records())) if args.resume else Restored()
    except (ListError, ConfigError, ArchiveError, RecordError, FileNotFoundError) as error:
        print(f"device-run: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    label = f"{shard[0]}-of-{shard[1]}"
    if args.resume:
        print(f"device-run {label}: {restored}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    log_path = args.out / f"snakemake-{label}.log"
    restored_s = time.monotonic() - begin_s
    ended, told = _run_workflow(args, root, plan, label, stop_at_s, kill_at_s, log_path)
    report = run_report.make(
        root,
        shard=label,
        list_path=args.list,
        config_path=root / args.config,
        targets=plan.targets(),
        records=plan.records(),
        started_at=started_at,
        revision=args.revision,
        restored=restored,
        restore_s=restored_s,
        ended=ended,
        told=told,
    )
    written = pack_shard(args.out, root, plan, label, report, log_path)
    print(run_report.summary(report))
    for path in written:
        print(f"device-run {label}: {path} ({path.stat().st_size} bytes)")
    print(f"device-run {label}: {time.monotonic() - begin_s:.1f} s of {60 * args.minutes:.0f} s", flush=True)
    return 0 if report.missing == 0 else EXIT_INCOMPLETE


def _run_workflow(
    args: argparse.Namespace, root: Path, plan: Plan, label: str, stop_at_s: float, kill_at_s: float, log_path: Path
) -> tuple[Ended | None, str | None]:
    """Run Snakemake to its end or to the limit. What is there is packed whatever happens here."""
    if not plan.targets():  # more shards than problems
        return None, None
    targets = [*plan.targets(), *(["ceilings"] if plan.candidates else [])]  # tables need them, by the rule's name
    command = snakemake_command(targets, args.config, args.cores, run_report.gpu_count(), shlex.split(args.snakemake))
    progress = _Progress(root, plan, label, stop_at_s)
    try:
        with told_by_signal(), log_path.open("wb") as log:
            ended = run_until(command, stop_at_s=stop_at_s, kill_at_s=kill_at_s, log=log, cwd=root, tick=progress)
            return ended, None
    except Told as told:
        return None, str(told)
