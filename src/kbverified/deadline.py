"""Run a command so that it has ended by a given moment, with everything that it started. Linux, torch-free."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Literal

Stopped = Literal["asked", "jobs killed", "killed"]

_POLL_S = 0.2
_CLEANING_UP_S = 8.0
"""What Snakemake gets after its jobs were killed: it deletes their outputs, releases its lock and ends."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    returncode: int
    stopped: Stopped | None
    """None: by itself. ``asked``: on SIGTERM, once its running jobs had ended. ``jobs killed``: by itself, once they
    were killed. ``killed``: not even then."""
    duration_s: float


def run_until(
    command: Sequence[str],
    *,
    stop_at_s: float,
    kill_at_s: float,
    log: IO[bytes],
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Ended:
    """Run command in a session of its own, output to log.

    At stop_at_s (``time.monotonic``) it gets SIGTERM, on which Snakemake starts no further job and waits for those
    that run. Some seconds before kill_at_s these are killed, on which it cleans up after them and ends: SIGINT would
    have it wait for them. At kill_at_s the command itself is killed. Also on an exception here (Ctrl-C) nothing is
    left running. ``tick`` is called about every 200 ms. Raises OSError where the command cannot be started.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        while not _ended(process) and time.monotonic() < stop_at_s:
            tick()
        stopped: Stopped | None = None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            stopped = "asked"
        while not _ended(process) and time.monotonic() < kill_at_s - _CLEANING_UP_S:
            tick()
        if process.poll() is None:
            stopped = _end(process, max(0.0, kill_at_s - time.monotonic()))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            _end(process, _CLEANING_UP_S)
    return Ended(process.returncode, stopped, time.monotonic() - begin)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that descends from it, at once, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGSTOP)  # so that it starts nothing more
    family = descendants(process.pid)
    _kill(family)
    process.kill()
    process.wait()


class Told(Exception):
    """This process itself was told to end. The message is the signal's name."""


@contextlib.contextmanager
def told_by_signal() -> Iterator[None]:
    """Within it SIGTERM and Ctrl-C raise Told in the main thread."""

    def tell(number: int, frame: object) -> None:
        raise Told(signal.Signals(number).name)

    with answering((signal.SIGTERM, signal.SIGINT), tell):
        yield


@contextlib.contextmanager
def answering(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within it these signals call a handler, in the main thread; after it what they called before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_POLL_S)
    return process.poll() is not None


def _end(process: subprocess.Popen[bytes], within_s: float) -> Stopped:
    """Kill what descends from process until it ends by itself, and process too where it does not in time."""
    until_s = time.monotonic() + within_s
    family: dict[int, str] = {}
    while True:
        family.update(descendants(process.pid))
        _kill(family)
        if _ended(process):
            stopped: Stopped = "jobs killed"
            break
        if time.monotonic() >= until_s:
            family.update(descendants(process.pid))
            process.kill()
            process.wait()
            stopped = "killed"
            break
    _kill(family)
    return stopped


def descendants(pid: int) -> dict[int, str]:
    """Processes that descend from pid, whatever session they moved to, with their start times.

    Orphans of a parent that has ended are not seen.
    """
    starts: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        stat = _stat(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None:
            starts[int(entry.name)] = stat[1]
            children.setdefault(stat[0], []).append(int(entry.name))
    found: dict[int, str] = {}
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found[child] = starts[child]
                queue.append(child)
    return found


def _stat(pid: int) -> tuple[int, str] | None:
    """Parent and start time of a process; None where it has ended."""
    try:
        # The name in parentheses may hold anything; proc(5) counts the fields after it from 3.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1]), fields[19]
    except (OSError, IndexError, ValueError):
        return None


def _kill(family: dict[int, str]) -> None:
    for pid, start in family.items():
        stat = _stat(pid)
        if stat is not None and stat[1] == start:  # not another process under the same number
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
