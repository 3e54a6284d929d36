"""The baseline of time-compile: torch.compile of the reference, compiled once for a problem and an environment.

Whoever needs it first fills inductor's caches, in a process of its own and under a lock; what is there afterwards is a
folder that no candidate's worker sees, and a note that says how long it took or why there is no such baseline. The
worker of a timing stage starts from a copy of that folder, so that a device is held for a look-up and not a compiler.
In both places the output is compared with the eager reference's: what gives another answer is no baseline.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from kbverified.compilation import directory, toolchain
from kbverified.devices import cpu_model
from kbverified.judge.party import BaselineUnusable, CandidateFailure, InfrastructureFault, NotMeasurable
from kbverified.judge.party import Settings as StageSettings
from kbverified.judge.stage import COMPILING, Job
from kbverified.protocol import (
    COMPILED_BASELINE_MODE,
    COMPILED_BASELINE_OPTIONS,
    COMPILED_BASELINE_RMS_LIMIT,
)
from kbverified.records.base import Record
from kbverified.records.files import read, write
from kbverified.records.problem import ProblemRecord
from kbverified.records.timing import CompiledBaseline
from kbverified.sandbox import import_path, reclaim


class Note(Record):
    """What filling the caches of one baseline came to."""

    problem_sha256: str
    environment: dict[str, Any]
    reason: str | None = None
    """Why there is no such baseline; None where there is one."""
    compile_s: float | None = Field(default=None, ge=0)


@dataclass(frozen=True)
class Compiled:
    """A baseline's inductor caches; a ``Job`` that has one starts its baseline's worker from them."""

    folder: Path
    compile_s: float = 0.0
    threads: int = 1
    """Of inductor's compiler, in the worker: where all comes from caches, a pool of processes would be in the way."""

    def options(self) -> dict[str, Any]:
        """For the worker's start message."""
        return {**COMPILED_BASELINE_OPTIONS, "threads": self.threads}

    def load(self, job: Job, reference: Any, side: Any) -> CompiledBaseline:
        """The first launch of the baseline's worker in a timing stage, which takes its kernels from the caches.

        Raises BaselineUnusable where it gives another answer than the eager reference, InfrastructureFault.
        """
        found = launch(job, reference, side.exchange, job.baseline)
        if job.party.deadline is not None:
            job.party.deadline += found.seconds  # the candidate has nothing to do with it
        job.lap("baseline from its caches")
        return CompiledBaseline(
            **COMPILED_BASELINE_OPTIONS,  # type: ignore[arg-type]
            compile_s=self.compile_s,
            load_s=round(found.seconds, 3),
            graphs=found.graphs,
            graph_breaks=found.graph_breaks,
            from_caches=found.from_caches,
            critical_tolerance=found.comparison.critical_tolerance,
            rms_relative_error=found.comparison.rms_relative_error,
        )


# --- one launch, compared -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Launch:
    """The first launch of a compiled model; ``seconds`` by the judge's clock."""

    seconds: float
    graphs: int
    graph_breaks: int
    from_caches: int
    comparison: Any


def launch(job: Job, reference: Any, exchange: Any, party: Any) -> Launch:
    """Launch once on inputs from a secret seed and compare with the eager reference in this process's mode.

    Raises BaselineUnusable where it raises or answers otherwise, CandidateFailure where its process ends or hangs.
    """
    from kbverified import layout
    from kbverified.correctness import compare_all
    from kbverified.judge.rounds import redraw

    inputs = redraw(reference)
    exchange.offer(inputs)
    start = time.monotonic()
    try:
        reply = exchange.forward(timeout_s=job.settings.build_timeout_s)
    except CandidateFailure as failure:
        if failure.is_ambiguous():
            raise
        raise BaselineUnusable(f"torch.compile failed: {_last_line(failure.detail)}") from failure
    seconds = time.monotonic() - start
    counts = reply.get("compiled") or {}
    if not counts.get("graphs"):
        raise BaselineUnusable("torch.compile compiled no graph: the baseline would be the eager reference again")
    comparison = compare_all(exchange.take(), layout.leaves(reference.forward(inputs)))
    if (why := why_another_answer(comparison)) is not None:
        raise BaselineUnusable(why)
    return Launch(seconds, counts["graphs"], counts["graph_breaks"], counts["from_caches"], comparison)


def why_another_answer(comparison: Any) -> str | None:
    """In what a compiled output differs from the eager reference's; None where they agree."""
    if comparison.mismatched_nonfinite or comparison.critical_tolerance is None:
        return "torch.compile changes the answer: NaN or Inf where the eager reference is finite, or the other way"
    error = comparison.rms_relative_error
    if error is not None and error > COMPILED_BASELINE_RMS_LIMIT:
        return f"torch.compile changes the answer: off by {error:.3g} (relative rms) against the eager reference"
    return None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line.split(":")[0]]
    return (errors or lines or ["it said nothing"])[-1][:300]


# --- caches, filled once ------------------------------------------------------------------------------------
def ready(problem: Path, audit_path: Path, settings: StageSettings) -> Compiled:
    """The caches of a problem's compiled baseline; filled now, under a lock, where nobody has done it yet.

    Raises BaselineUnusable where there is none for this problem, InfrastructureFault where filling did not end.
    """
    environment = environment_of(settings)
    sha = hashlib.sha256(problem.read_bytes()).hexdigest()
    folder = cache_folder(settings.build_root, sha, environment)
    with directory.locked(folder):
        path = note_path(folder)
        if not path.exists():
            _fill_in_process(problem, audit_path, settings, folder)
        note = read(path, Note)
    if note.reason is not None:
        raise BaselineUnusable(f"{note.reason} (noted in {path.relative_to(settings.build_root.absolute())})")
    return Compiled(folder, note.compile_s or 0.0)


def environment_of(settings: StageSettings) -> dict[str, Any]:
    """What the generated code depends on besides the problem."""
    from kbverified import lease

    tools = toolchain.find(settings.arch)
    gpus = lease.visible_gpus() if settings.device == "cuda" else []
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = None
    return {
        "device": settings.device,
        "name": gpus[0].name if gpus else cpu_model(),  # generated C++ depends on its vector instructions
        "toolchain": tools.identity(),
        "triton": triton,
        "dtype": settings.dtype,
        "mode": COMPILED_BASELINE_MODE,
        "threads": settings.threads,
        "options": COMPILED_BASELINE_OPTIONS,
        "rms_limit": COMPILED_BASELINE_RMS_LIMIT,
    }


def cache_folder(root: Path, problem_sha256: str, environment: dict[str, Any]) -> Path:
    """Below the build root, by content (not created)."""
    identity = json.dumps([problem_sha256, environment], sort_keys=True)
    name = hashlib.sha256(identity.encode()).hexdigest()
    return root.absolute() / "baselines" / name[:2] / name[2:34]


def note_path(folder: Path) -> Path:
    """Beside the folder, which is the worker's to write while it is filled; delete the note to have it filled again."""
    return folder.parent / f"{folder.name}.json"


def _fill_in_process(problem: Path, audit_path: Path, settings: StageSettings, folder: Path) -> None:
    """In a process of its own: this one has yet to lease a device, and may open only that one."""
    words = {**asdict(settings), "build_root": str(settings.build_root.absolute())}
    arguments = [str(problem.absolute()), str(audit_path.absolute()), str(folder), json.dumps(words)]
    done = subprocess.run(  # no limit here: it waits for a device, and what it does with one has limits of its own
        [sys.executable, "-P", "-m", "kbverified.judge.compiled", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": import_path()},
        check=False,
    )
    if done.returncode != 0 or not note_path(folder).exists():
        raise InfrastructureFault(
            f"compiling the baseline of {problem} left no note (exit code {done.returncode}): see above in this log"
        )


def fill(problem: Path, audit: ProblemRecord, settings: StageSettings, folder: Path) -> Note:
    """Compile a problem's reference with a device held, into a folder whose lock the caller has.

    Raises InfrastructureFault where the machine is at fault.
    """
    from kbverified.judge.exchange import Exchange
    from kbverified.judge.inputs import needed_bytes
    from kbverified.judge.party import machines_fault
    from kbverified.judge.reference import Reference

    job = Job(COMPILING, problem, problem, audit, settings, folder, True, mode=COMPILED_BASELINE_MODE)
    job.builds_in_gate = True  # its limit is the stage's and a build's
    # The stage that asked for it has already left the cores that are kept for devices.
    job.compiled = Compiled(folder, threads=len(os.sched_getaffinity(0)))
    note = Note(problem_sha256=hashlib.sha256(problem.read_bytes()).hexdigest(), environment=environment_of(settings))
    try:
        job.spawn_workers()
        reference = Reference(problem, settings.dtype)
        with job.on_device() as device:
            with machines_fault("the baseline failed"):
                job.await_model(job.baseline)
            reference.place(device)
            job.preflight(needed_bytes(audit, copies_of_buffers=2, models=2))
            exchange = Exchange(device, job.baseline, audit, settings.dtype)
            try:
                found = launch(job, reference, exchange, job.baseline)
            finally:
                exchange.close()
    except NotMeasurable as error:
        return note.model_copy(update={"reason": str(error)})
    except CandidateFailure as failure:
        if failure.is_ambiguous() and failure.verdict != "timeout":  # trusted code: the machine's, and tried again
            raise InfrastructureFault(f"torch.compile of {problem} did not get through: {failure}") from failure
        return note.model_copy(update={"reason": f"torch.compile did not get through: {failure}"[:300]})
    finally:
        job.end()
        reclaim(folder)
    return note.model_copy(update={"compile_s": round(found.seconds, 3)})


def main(words: list[str]) -> int:
    """The filling process: problem, audit record, folder and settings. Returns an exit code of ``exit_codes``."""
    from kbverified import lease
    from kbverified.exit_codes import EXIT_INFRASTRUCTURE
    from kbverified.sandbox import linux

    problem, audit_path, folder = map(Path, words[:3])
    values = json.loads(words[3])
    settings = StageSettings(**{**values, "build_root": Path(values["build_root"])})
    os.umask(0o022)
    linux.die_with_parent()  # it has the lock: another that asks would fill the same folder
    lease.leave_driver_untouched()
    try:
        note = fill(problem, read(audit_path, ProblemRecord), settings, folder)
    except (InfrastructureFault, OSError) as error:
        print(f"compiling the baseline: {error}", file=sys.stderr)
        return EXIT_INFRASTRUCTURE
    write(note_path(folder), note)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
