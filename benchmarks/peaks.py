"""Run a command and tell how much memory, and CPU time, each kind of process below it took.

    python -m benchmarks.peaks --json peaks.json -- snakemake --cores 8

Every half second all descendants are read from /proc, orphans such as a daemon that the command leaves among them:
resident set (RSS) and, where that grew, the proportional set (PSS), in which a page shared by k processes counts 1/k in
each. PSS is what adds up; a forked process that shares its parent's torch shows it. Peaks between two looks are missed,
and so are processes that live for less. CPU seconds are those at the last look, so slightly too few. For the processes
of other users (workers), run as root. Linux.

The command's output goes where ours goes; its exit code is ours. SIGTERM and Ctrl-C are passed on to it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.summaries import Spread, number, spread, table, write
from kbverified.sandbox import linux

EVERY_S = 0.5
_PSS_AGAIN_S = 5.0
_PSS_GROWTH = 1.03
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
COMPILERS = ("nvcc", "cudafe++", "cicc", "ptxas", "fatbinary", "cc1plus", "as", "ld", "collect2", "g++", "c++", "ninja")


@dataclass(frozen=True)
class Stat:
    """One line of /proc/PID/stat (proc(5))."""

    pid: int
    parent: int
    start: str
    comm: str
    cpu_s: float
    rss_bytes: int


@dataclass
class Process:
    """What was seen of one process under one role."""

    role: str
    rss_bytes: int = 0
    pss_bytes: int | None = None
    """Largest. None where it could not be read."""
    cpu_s: float = 0.0
    looks: int = 0
    last_pss_bytes: int = 0
    _pss_rss_bytes: int = 0
    _pss_at_s: float = float("-inf")

    def look(self, stat: Stat, now_s: float) -> None:
        self.looks += 1
        self.cpu_s = stat.cpu_s
        self.rss_bytes = max(self.rss_bytes, stat.rss_bytes)
        if stat.rss_bytes > _PSS_GROWTH * self._pss_rss_bytes or now_s - self._pss_at_s > _PSS_AGAIN_S:
            pss = read_pss(stat.pid)
            if pss is not None:
                self.last_pss_bytes = pss
                self.pss_bytes = max(self.pss_bytes or 0, pss)
            self._pss_rss_bytes, self._pss_at_s = stat.rss_bytes, now_s


# --- /proc --------------------------------------------------------------------------------------------------
def parse_stat(text: str) -> Stat:
    """Raises ValueError, IndexError for what is no stat line."""
    head, _, tail = text.rpartition(")")
    pid, _, comm = head.partition("(")
    fields = tail.split()  # the first of them is field 3
    return Stat(
        int(pid),
        int(fields[1]),
        fields[19],
        comm,
        (int(fields[11]) + int(fields[12])) / _TICKS,
        int(fields[21]) * _PAGE_BYTES,
    )


def all_processes() -> dict[int, Stat]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = parse_stat(Path(f"/proc/{entry.name}/stat").read_text(errors="replace"))
            except (OSError, ValueError, IndexError):
                continue  # it has ended
            found[stat.pid] = stat
    return found


def below(root: int, processes: Mapping[int, Stat]) -> list[Stat]:
    """root and its descendants, parents before children."""
    children: dict[int, list[int]] = {}
    for stat in processes.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    order = [root] if root in processes else []
    for pid in order:
        order += children.get(pid, [])
    return [processes[pid] for pid in order]


def read_pss(pid: int) -> int | None:
    """Proportional set size in bytes; None where the process has ended or is not ours to read."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None
    return None


def _read_words(path: str) -> list[str]:
    try:
        return [word for word in Path(path).read_bytes().decode(errors="replace").split("\0") if word]
    except OSError:
        return []


# --- roles --------------------------------------------------------------------------------------------------
def role_of(words: Sequence[str], environ: Sequence[str], parent_role: str, comm: str) -> str:
    """What a process is, from its command line, its first environment, its parent's role and its name."""
    text = " ".join(words)
    stage = parent_role.partition(" ")[2] if parent_role.startswith(("judge ", "launcher ")) else ""
    if "kbverified" in words or text.find("-m kbverified ") >= 0:
        after = list(words[words.index("kbverified") + 1 :]) if "kbverified" in words else []
        if after[:1] == ["stage"] and len(after) > 1:
            return f"judge {after[1]}"
        return f"judge {after[0]}" if after[:1] == ["audit-problem"] else " ".join(["kbverified", *after[:1]])
    if "kbverified.worker" in words:
        return f"{_side(environ, stage)} {stage}".strip()
    if text.endswith("launcher.py"):
        return f"launcher {stage}".strip()
    for word in words:
        if word.startswith("kbverified.evaluator"):  # its forks have its command line
            return _EVALUATOR_BELOW.get(parent_role, "evaluator")
        if word.startswith("kbverified."):
            return word
    if "snakemake" in words or "/snakemake" in text.partition(" -")[0]:
        return "snakemake"
    name = os.path.basename(words[0]) if words else comm
    if name.split(".")[0] in COMPILERS or comm in COMPILERS:
        return f"compiler {comm if comm in COMPILERS else name}"
    return "python, other" if name.startswith("python") else "other"


_EVALUATOR_BELOW = {
    "evaluator": "judge or launcher of an evaluator",
    "judge or launcher of an evaluator": "worker of an evaluator",
    "worker of an evaluator": "worker of an evaluator",
}


def _side(environ: Sequence[str], stage: str) -> str:
    """A candidate's worker has the sealed caches of its build, or may write there; a baseline has neither."""
    if any(entry.startswith("KBV_SEALED_CACHE=") for entry in environ) or stage in ("compile", "hidden-gate"):
        return "candidate"
    return "baseline" if stage else "worker"


class Watch:
    """All processes that this one has started, and theirs, look by look."""

    def __init__(self, main: int):
        self.main = main
        """Waited for by who started it; any other child of ours is an orphan that came to us, and is reaped here."""
        linux.adopt_orphans()
        self.processes: dict[tuple[int, str, str], Process] = {}
        self.together_bytes = 0
        """Largest sum of PSS at one look."""
        self.most = 0
        """Most processes at one look."""

    def look(self) -> None:
        now_s = time.monotonic()
        roles: dict[int, str] = {}
        sum_bytes = 0
        tree = below(os.getpid(), all_processes())[1:]
        for stat in tree:
            words = _read_words(f"/proc/{stat.pid}/cmdline")
            environ = _read_words(f"/proc/{stat.pid}/environ") if "kbverified.worker" in words else []
            role = role_of(words, environ, roles.get(stat.parent, ""), stat.comm)
            roles[stat.pid] = role
            process = self.processes.setdefault((stat.pid, stat.start, role), Process(role))
            process.look(stat, now_s)
            sum_bytes += process.last_pss_bytes
            if stat.parent == os.getpid() and stat.pid != self.main:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)
        self.together_bytes = max(self.together_bytes, sum_bytes)
        self.most = max(self.most, len(tree))


def watched(command: Sequence[str], every_s: float = EVERY_S, **options: Any) -> tuple[int, float, Watch]:
    """Run a command (``options``: of Popen) and look at it to its end.

    Returns its exit code (128 + the signal's number where one ended it), its seconds of wall, and what was seen.
    While it runs, SIGTERM and SIGINT are passed on to it. Raises OSError where it cannot be started.
    """
    start = time.monotonic()
    process = subprocess.Popen(list(command), **options)
    before = {n: signal.signal(n, lambda got, _: process.send_signal(got)) for n in (signal.SIGTERM, signal.SIGINT)}
    watch = Watch(process.pid)
    try:
        while process.poll() is None:
            begin = time.monotonic()
            watch.look()
            took_s = time.monotonic() - begin
            time.sleep(max(every_s - took_s, took_s))  # never more than half of a core
    finally:
        for number_, handler in before.items():
            signal.signal(number_, handler)
    code = process.returncode
    return (code if code >= 0 else 128 - code), time.monotonic() - start, watch


# --- summing up ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Role:
    """All processes of one role: their own peaks in MiB, and the CPU seconds of each."""

    role: str
    pss_mib: Spread | None
    rss_mib: Spread
    cpu_s: Spread


def summarize(processes: Sequence[Process]) -> list[Role]:
    """Largest first. Processes seen at a single look count: short compilers are such."""
    roles = []
    for role in {process.role for process in processes}:
        mine = [process for process in processes if process.role == role]
        rss, cpu = spread(p.rss_bytes / 2**20 for p in mine), spread(p.cpu_s for p in mine)
        assert rss is not None and cpu is not None
        pss = spread(p.pss_bytes / 2**20 for p in mine if p.pss_bytes is not None)
        roles.append(Role(role, pss, rss, cpu))
    return sorted(roles, key=lambda one: (-(one.pss_mib.largest if one.pss_mib else 0.0), one.role))


def cpu_by_stage(processes: Sequence[Process]) -> dict[str, float]:
    """CPU seconds of all processes of a stage (judge, workers, launchers), per judge that was seen.

    What an evaluator and its forks used is shared alike among all judges: its forks do not show whose they are.
    """
    judges: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for process in processes:
        kind, _, stage = process.role.partition(" ")
        if kind in ("judge", "candidate", "baseline", "launcher") and process.role not in _EVALUATOR_BELOW.values():
            seconds[stage] = seconds.get(stage, 0.0) + process.cpu_s
            judges[stage] = judges.get(stage, 0) + (kind == "judge")
    of_evaluator = {"evaluator", *_EVALUATOR_BELOW.values()}
    shared_s = sum(p.cpu_s for p in processes if p.role in of_evaluator) / max(1, sum(judges.values()))
    return {stage: seconds[stage] / count + shared_s for stage, count in judges.items() if count}


def text(roles: Sequence[Role], together_bytes: int) -> str:
    head = ["process", "n", "peak PSS MiB, median", "largest", "peak RSS MiB, largest", "CPU-s, median"]
    rows = [
        [
            one.role,
            one.rss_mib.n,
            number(one.pss_mib.median, 0) if one.pss_mib else None,
            number(one.pss_mib.largest, 0) if one.pss_mib else None,
            number(one.rss_mib.largest, 0),
            number(one.cpu_s.median, 1),
        ]
        for one in roles
    ]
    return f"{table(head, rows)}\n\nall together at one moment: {together_bytes / 2**30:.2f} GiB PSS"


def main(argv: list[str] | None = None) -> int:
    """The command's exit code; 128 + the signal's number where one ended it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--every-s", type=float, default=EVERY_S)
    parser.add_argument("command", nargs="+", metavar="-- COMMAND")
    arguments = parser.parse_args(argv)
    code, seconds, watch = watched(arguments.command, arguments.every_s)
    roles = summarize(list(watch.processes.values()))
    if arguments.json:
        facts = {"command": arguments.command, "wall_s": round(seconds, 1), "most_processes": watch.most}
        write(arguments.json, {**facts, "together_bytes": watch.together_bytes, "roles": roles})
    print(f"\n{text(roles, watch.together_bytes)}; {seconds:.0f} s, at most {watch.most} processes", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
