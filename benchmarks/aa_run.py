"""The runs of an A/A study: renamed references against themselves, timed again and again in fresh processes.

    python -m benchmarks.aa_run --problems problems/kernelbench --out OUT [--resume ARCHIVE ...]   # until it exits 0
    python -m benchmarks.aa OUT/records-aa.tar.xz

Samples of a problem are the same bytes. So a problem is audited, compiled and put through the gate once, and each
sample through time-fp32 and time-tf32 alone, by the command that the workflow calls. Its first sample comes before
anybody's second, problems in an order drawn beforehand: what is there when time is over is a fair sample of all.

It ends within --minutes, counted from its start: 30 s before, nothing more is started; 10 s before, or earlier where
more has to be packed, what still runs is killed with all that it started. Then OUT/records-aa.tar.xz is written, an
archive as ``device-run`` makes them: benchmarks.aa, merge-records and --resume of the next call read it. An archive
that lies in OUT, and records that a killed call has left in OUT/work, are gone on from without being named. What was
made of other sources, under other constants or by other code of its stage is made again.

A problem that cannot be a candidate, or does not pass its audit or its gate, is said and not timed.

Exit code: 0 every timing record of the others is there; 1 some are missing: call again; 2 bad input, nothing ran.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.aa_chains import START_NOTHING_S, TIMEOUTS_S, Clock, Runner
from benchmarks.aa_tree import Tree, archives_in
from benchmarks.stage_calls import PROJECT, Calls
from kbverified import lease
from kbverified.archive import ArchiveError
from kbverified.config import Timing
from kbverified.deadline import Ended, Told, told_by_signal
from kbverified.device_run import ListError, read_list
from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INCOMPLETE
from kbverified.keys import ProblemKey
from kbverified.records.files import RecordError, write_text
from kbverified.run_report import revision_of

JOBS_PER_GPU = 4
"""So that others get ready while one holds the GPU."""


# --- what to run --------------------------------------------------------------------------------------------
def chosen(folder: Path, listed: Path | None, seed: int) -> list[ProblemKey]:
    """The problems of a folder, or those of a list, in the order of the seed, which does not depend on the choice.

    Raises ListError, FileNotFoundError, ValueError.
    """
    found = {path.stem: ProblemKey(folder.resolve().name, path.stem) for path in folder.glob("level*_*.py")}
    if not found:
        raise ListError(f"--problems {folder}: no level*_*.py in it; kbverified import-problems brings a suite")
    keys = list(found.values())
    if listed is not None:
        keys, candidates = read_list(listed)
        if candidates:
            raise ListError(f"{listed}: {candidates[0]} is a candidate; name its problem, {candidates[0].problem_key}")
        unknown = [key for key in keys if key not in found.values()]
        if unknown:
            raise ListError(f"{listed}: {unknown[0]} is not in {folder}, nor are {len(unknown) - 1} others of the list")
    return sorted(keys, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).hexdigest())


# --- command ------------------------------------------------------------------------------------------------
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.aa_run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", type=Path, required=True, metavar="FOLDER", help="of one suite, whose name it has"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets the archive, and work/")
    parser.add_argument("--list", type=Path, metavar="FILE", help="only these problems, suite/problem, one a line")
    parser.add_argument("--samples", type=int, default=4, help="repeats of each problem (default: 4)")
    parser.add_argument("--minutes", type=float, default=9.0, help="the whole call ends within this (default: 9)")
    parser.add_argument("--jobs", type=int, help=f"at once (default: {JOBS_PER_GPU} for each visible GPU, 1 on a CPU)")
    parser.add_argument("--resume", type=Path, nargs="+", default=[], metavar="ARCHIVE", help="archives to go on from")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the problems (default: 1)")
    parser.add_argument("--timing-budget-s", type=float, default=Timing().budget_s, help="as of kbverified stage")
    parser.add_argument("--revision", help="for the report, where the checkout came without git")
    return parser


def _check(arguments: argparse.Namespace) -> None:
    """Raises ListError."""
    for name in ("samples", "jobs"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ListError(f"--{name} {value}: at least 1")
    if not 60 * arguments.minutes > START_NOTHING_S:
        raise ListError(
            f"--minutes {arguments.minutes:g} leaves no time: nothing starts in the last {START_NOTHING_S:g} s"
        )
    if arguments.device == "cuda" and not lease.visible_gpus():
        raise ListError("--device cuda: no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES, or --device cpu")


def main(argv: list[str] | None = None) -> int:
    begin_s, started_at = time.monotonic(), datetime.now(UTC)
    arguments = _parser().parse_args(argv)
    os.umask(0o022)  # workers of another uid read the sources
    tree = Tree((arguments.out / "work").absolute(), arguments.samples, arguments.device, arguments.timing_budget_s)
    try:
        _check(arguments)
        keys = chosen(arguments.problems, arguments.list, arguments.seed)
        left_out = tree.write_sources(arguments.problems.resolve(), keys)
        tree.look()
        restored = tree.restore([*arguments.resume, *archives_in(arguments.out)], arguments.out)
    except (ArchiveError, RecordError, OSError, ValueError) as error:
        print(f"aa_run: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    restore_s = time.monotonic() - begin_s
    clock = Clock(begin_s, arguments.minutes, tree)
    budget = ("--timing-budget-s", str(arguments.timing_budget_s))
    runner = Runner(tree, Calls(arguments.device, tree.root / "build", None, budget, clock.cut_off), clock, left_out)
    jobs = arguments.jobs or (JOBS_PER_GPU * len(lease.visible_gpus()) if arguments.device == "cuda" else 1)
    print(f"aa_run: {restored}; {jobs} at once; {runner.progress()}", flush=True)
    try:
        with told_by_signal():
            runner.run(jobs)
    except Told as told:  # a second time
        clock.told = str(told)
    finally:
        there, of = runner.counts()
        code = 0 if there == of else EXIT_INCOMPLETE
        took_s = time.monotonic() - begin_s - restore_s
        written, notes = tree.pack(
            arguments.out,
            conditions=_conditions(arguments),
            wanted=_list(arguments.out, keys),
            started_at=started_at,
            revision=arguments.revision or revision_of(PROJECT),
            restored=restored,
            restore_s=restore_s,
            ended=None if clock.told else Ended(code, clock.stopped, took_s),
            told=clock.told,
        )
    files = [f"{path} ({path.stat().st_size} bytes)" for path in written]
    for line in [*notes, *runner.summary(), *files]:
        print(f"aa_run: {line}")
    print(f"aa_run: {time.monotonic() - begin_s:.1f} s of {60 * arguments.minutes:.0f} s", flush=True)
    return code


def _conditions(arguments: argparse.Namespace) -> Path:
    """The file of which the report has the name and the hash: what shapes the records of this call."""
    path = arguments.out / "conditions.json"
    names = ("device", "samples", "seed", "timing_budget_s")
    settings = {name: getattr(arguments, name) for name in names} | {"timeouts_s": TIMEOUTS_S}
    write_text(path, json.dumps(settings, indent=1) + "\n")
    return path


def _list(out: Path, keys: Sequence[ProblemKey]) -> Path:
    path = out / "list.txt"
    write_text(path, "".join(f"{key}\n" for key in keys))
    return path


if __name__ == "__main__":
    raise SystemExit(main())
