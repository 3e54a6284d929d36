"""The steps of a check, each the command that the workflow runs, one after the other, with what they leave.

A step's own process is the judge: this one imports no torch and executes nothing of candidate or problem.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import kbverified
from kbverified import evaluator, protocol
from kbverified.check import place as places
from kbverified.check.place import Place
from kbverified.check.question import MachineFault
from kbverified.exit_codes import EXIT_BAD_INPUT
from kbverified.keys import TIME_STAGES
from kbverified.records.base import Record
from kbverified.records.ceilings import Ceilings
from kbverified.records.files import RecordError, read, write
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import STAGE_MODELS

AUDIT, CEILINGS = "audit-problem", "ceilings"
_LOG_LINES = 12
_END_S = 10.0


@dataclass(frozen=True)
class Step:
    """One command and the record that it writes. ``cached``: where a copy of the record is kept for other checks."""

    name: str
    words: tuple[str, ...]
    record: Path
    model: type[Record]
    cached: Path | None = None


@dataclass(frozen=True)
class Done:
    """A step that left its record."""

    name: str
    record: Record
    duration_s: float
    from_cache: bool


Watch = Callable[[str, float, str], None]
"""Told (step, seconds so far, what it said last) every now and then while a step runs."""


def steps(place: Place, build_root: Path) -> list[Step]:
    """All steps of a check, in order."""
    q = place.question
    problem = ("--problem", str(place.problem))
    audit_words = (*problem, "--device", q.device, "--dtype", "fp32", "--timeout-s", f"{q.timeout_of(AUDIT):g}")
    found = [
        Step(
            AUDIT,
            (AUDIT, *audit_words, "--out", str(place.audit)),
            place.audit,
            ProblemRecord,
            places.cached_audit(place),
        )
    ]
    # On a CPU, which nobody has for himself, ceilings take nothing away: not worth their seconds.
    if q.device == "cuda" and set(q.stages) & set(TIME_STAGES):
        measure = (CEILINGS, "--device", q.device, "--out", str(place.ceilings))
        found.append(Step(CEILINGS, measure, place.ceilings, Ceilings, places.cached_ceilings(place)))
    for stage in q.stages:
        words: tuple[str, ...] = (
            "stage",
            stage,
            "--candidate",
            str(place.candidate),
            *problem,
            "--audit",
            str(place.audit),
        )
        words += ("--out", str(place.record(stage)), *_settings(place, stage, build_root))
        if stage != "compile":
            words += ("--compiled", str(place.record("compile")))
        if stage not in ("compile", "hidden-gate"):
            words += ("--gate", str(place.record("hidden-gate")))
        found.append(Step(stage, words, place.record(stage), STAGE_MODELS[stage]))
    return found


def _settings(place: Place, stage: str, build_root: Path) -> tuple[str, ...]:
    """As the workflow's rules hand them over."""
    q = place.question
    words: tuple[str, ...] = (
        "--device",
        q.device,
        "--dtype",
        q.dtype,
        "--sandbox",
        q.sandbox,
        "--build-root",
        str(build_root),
    )
    words += ("--timeout-s", f"{q.timeout_of(stage):g}", "--build-timeout-s", f"{q.timeout_of('compile'):g}")
    if q.arch is not None:
        words += ("--arch", q.arch)
    if stage == "hidden-gate":
        words += ("--gate-mode", q.gate_mode)
    if stage in TIME_STAGES:
        words += ("--timing-budget-s", f"{q.timing_budget_s:g}")
    return words


def run(step: Step, log: Path, watch: Watch) -> Done:
    """Bring a step's record: from the cache, or by its command.

    Raises ValueError where the command says that its input is at fault, MachineFault where it fails otherwise.
    """
    begin = time.monotonic()
    if step.cached is not None and (kept := _from_cache(step)) is not None:
        return Done(step.name, kept, time.monotonic() - begin, True)
    code = _call(step, log, watch)
    if code:
        said = _end_of(log) or f"it said nothing and ended with {code}"
        if code == EXIT_BAD_INPUT:
            raise ValueError(f"{step.name}: {said}")
        raise MachineFault(f"{step.name} left no record (exit {code}): {said}")
    record = read(step.record, step.model)
    if step.cached is not None and _worth_keeping(record):
        with contextlib.suppress(OSError):  # a read-only home: the next check audits again
            write(step.cached, record)
    return Done(step.name, record, time.monotonic() - begin, False)


def _worth_keeping(record: Record) -> bool:
    return not isinstance(record, ProblemRecord) or record.usable


def _from_cache(step: Step) -> Record | None:
    """A record of an earlier check, put where the command would have put it; None where none can be read."""
    assert step.cached is not None
    try:
        if step.cached.stat().st_uid != os.geteuid():  # a cache that others write into is none to believe
            return None
        record = read(step.cached, step.model)
    except OSError:
        return None
    except RecordError:  # an older version's, or cut short: made again and replaced
        return None
    if record.provenance.schema_version != protocol.SCHEMA_VERSION:  # type: ignore[attr-defined]
        return None
    write(step.record, record)
    return record


def environment() -> dict[str, str]:
    """Of the commands: this process's, with the evaluator unless it is switched, and this very package.

    The package goes on their path by name, for they start with -P: the working directory may hold a torch.py.
    """
    made = dict(os.environ)
    made.setdefault(evaluator.VARIABLE, "on")
    package = Path(kbverified.__file__).resolve().parents[1]
    if package.name not in ("site-packages", "dist-packages"):
        made["PYTHONPATH"] = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    return made


def _call(step: Step, log: Path, watch: Watch) -> int:
    """Run the command into its log; its exit code. Ended with this call, whatever ends it."""
    step.record.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with log.open("wb") as file, _ended_by_interrupts() as group:
        command = [sys.executable, "-P", "-m", "kbverified", *step.words]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment(),
            umask=0o022,
            process_group=group,
        )
        try:
            while True:
                try:
                    return process.wait(timeout=0.1)
                except subprocess.TimeoutExpired:
                    watch(step.name, time.monotonic() - begin, _last_line(log))
        finally:
            _end(process)


@contextlib.contextmanager
def _ended_by_interrupts() -> Iterator[int | None]:
    """Where this process ignores SIGINT (a script's background job) its commands would too, and ``_end`` sends it.

    Yields the process group for them: their own in that case, which no terminal's Ctrl-C reaches, as none reaches us.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield None
        return
    signal.signal(signal.SIGINT, lambda number, frame: None)  # does the same here, and is not passed on to a command
    try:
        yield 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)  # leaves its workers and its evaluator's judge in order
    timer = threading.Timer(_END_S, process.kill)
    timer.start()
    try:
        process.wait()
    finally:
        timer.cancel()


def _lines(log: Path) -> Iterator[str]:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        for line in file.read().decode("utf-8", "replace").splitlines():
            if line.strip():
                yield line.rstrip()


def _last_line(log: Path) -> str:
    return next(iter(reversed(list(_lines(log)))), "")


def _end_of(log: Path) -> str:
    return "\n".join(list(_lines(log))[-_LOG_LINES:]).removeprefix("kbverified: ")
