"""What compiling a candidate costs here, beside torch's plain ``load_inline`` of the same requests in the same run.

    python -m benchmarks.compile --candidates benchmarks/out/candidates --out benchmarks/out/compile
    python -m benchmarks.compile --bundled --out benchmarks/out/compile-bundled        # C++ only, needs no CUDA

Each candidate is compiled twice, each time by a process of its own: by ``kbverified stage compile`` as the workflow
calls it, and by ``benchmarks/plain_build.py``. The two take turns in going first. ``--at-once`` such processes run at
a time, both kinds side by side, so that both meet the same load. CPU seconds are those of the process and all that
descends from it and was waited for (wait4): start, imports, sandbox and compilers.

Goes on where an earlier call with the same --out stopped, as far as machine and code are the same; ends within
--minutes, what then still runs being killed and not counted. The build root is new in every call, so that nothing is
found built. Writes rows.jsonl and summary.json into --out and prints a table.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import candidates as listing
from benchmarks.compile_rows import SIDES, read_answer, rows_of_place, summarize, text
from benchmarks.summaries import environment, write
from kbverified import deadline
from kbverified.cli import printable

PROJECT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Item:
    """One candidate to compile."""

    tail: str
    candidate: Path
    problem: Path


@dataclass(frozen=True)
class Task:
    item: Item
    side: str


# --- what to compile ----------------------------------------------------------------------------------------
def listed_items(folder: Path, problems: Path) -> tuple[list[Item], list[str]]:
    """Items of the fixed list, as far as their files are there with the listed content; what is missing."""
    listed = listing.read_list()
    there = listing.in_folder(listed, folder)
    items, missing = [], []
    for one in listed:
        problem = problems / f"{one.problem}.py"
        if one.tail in there and problem.is_file():
            items.append(Item(one.tail, there[one.tail], problem))
        else:
            missing.append(
                f"{one.tail}: {problem if one.tail in there else folder / one.file} is not there, or differs"
            )
    return items, missing


def bundled_items() -> list[Item]:
    """The bundled honest candidates that ask for a C++ extension."""
    items = []
    for path in sorted((PROJECT / "generations/bundled-honest/bundled").glob("*/*.py")):
        if b"load_inline" in path.read_bytes():
            tail = path.relative_to(PROJECT / "generations").with_suffix("").as_posix()
            items.append(Item(tail, path, PROJECT / "problems/bundled" / f"{path.parent.name}.py"))
    return items


def tasks(items: Sequence[Item], sides: Sequence[str], done: Iterable[tuple[str, str]]) -> list[Task]:
    """Both sides of each candidate together, the side that goes first alternating; without what is done."""
    finished = set(done)
    order = []
    for index, item in enumerate(items):
        turn = sides if index % 2 == 0 else tuple(reversed(sides))
        order += [Task(item, side) for side in turn if (item.tail, side) not in finished]
    return order


def level_by_level(items: Sequence[Item]) -> list[Item]:
    """The first of each level, then the second of each, and so on."""
    levels: dict[str, list[Item]] = {}
    for item in items:
        levels.setdefault(item.problem.stem.partition("_")[0], []).append(item)
    return [item for rank in itertools.zip_longest(*levels.values()) for item in rank if item is not None]


# --- measuring ----------------------------------------------------------------------------------------------
class Runner:
    """Runs tasks as processes of their own and writes a row for each that ended by itself."""

    def __init__(self, arguments: argparse.Namespace, where: str, shapes: Path, work: Path, until_s: float):
        self.arguments, self.where, self.shapes, self.work, self.until_s = arguments, where, shapes, work, until_s
        self.rows: list[dict[str, Any]] = []
        self.cut = 0
        """Tasks that the end of the time cut off."""
        self._lock = threading.Lock()

    def run(self, order: Sequence[Task], at_once: int) -> None:
        """All tasks, so many at a time, until they are done or the time is over."""
        queue = iter(order)

        def serve() -> None:
            while time.monotonic() < self.until_s:
                with self._lock:
                    task = next(queue, None)
                if task is None:
                    return
                self._one(task)

        threads = [threading.Thread(target=serve) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self, *_: object) -> None:
        """As if the time were over: for signal handlers."""
        self.until_s = 0.0

    def _one(self, task: Task) -> None:
        name = f"{task.side}-{task.item.tail.replace('/', '-')}"
        out = self.work / f"{name}.json"
        with (self.arguments.out / "logs" / f"{name}.log").open("wb") as log:
            measured = measure(self._command(task, out), log, lambda: time.monotonic() >= self.until_s)
        if measured is None:
            self.cut += 1
            return
        row = {
            "side": task.side,
            "candidate": task.item.tail,
            "where": self.where,
            **measured,
            **read_answer(out, task.side),
        }
        with self._lock:
            self.rows.append(row)
            with (self.arguments.out / "rows.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            outcome = row["outcome"] if measured["exit"] == 0 else f"exit {measured['exit']}, see logs/{name}.log"
            print(
                f"{task.side:5} {task.item.tail}: {row['cpu_s']:.1f} CPU-s, {row['wall_s']:.1f} s, {outcome}",
                flush=True,
            )

    def _command(self, task: Task, out: Path) -> list[str]:
        item, device = task.item, self.arguments.device
        audit = self.shapes / f"{item.problem.stem}.json"
        command = ["--candidate", str(item.candidate), "--audit", str(audit), "--out", str(out), "--device", device]
        command += ["--arch", self.arguments.arch] if device == "cuda" else []
        if task.side == "plain":
            return [sys.executable, "-m", "benchmarks.plain_build", *command]
        command += ["--problem", str(item.problem), "--build-root", str(self.work / "build")]
        return [sys.executable, "-m", "kbverified", "stage", "compile", *command]


def measure(command: Sequence[str], log: Any, is_over: Callable[[], bool]) -> dict[str, Any] | None:
    """Run a command to its end: exit code, wall and CPU seconds of it and its descendants, its largest process.

    None where it still ran when the time was over and was killed with all that descends from it.
    """
    start, started_at = time.monotonic(), time.time()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=PROJECT,
        # A warm process would do the work elsewhere, where wait4 does not see it.
        env={**os.environ, "KBV_EVALUATOR": "off"},
        start_new_session=True,
    )
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if is_over():
            _kill(process.pid)
            os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
            return None
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 took it: subprocess has nothing to wait for
    return {
        "exit": process.returncode,
        "started_at": round(started_at, 3),
        "wall_s": round(time.monotonic() - start, 3),
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "largest_process_mib": round(used.ru_maxrss / 1024, 1),
    }


def _kill(pid: int) -> None:
    """A process and what descends from it, the descendants first: none is left to start another."""
    for one in (*deadline.descendants(pid), pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def busy_cpu_s() -> float:
    """CPU seconds that all processes of this machine have used since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


# --- command ------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A folder for this call's builds and records, gone at its end."""
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=out))
    os.chmod(work, 0o755)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def make_shapes(items: Sequence[Item], out: Path) -> list[str]:
    """Audit records with shapes alone, for every problem; names of those for which none could be made."""
    for folder in dict.fromkeys(item.problem.parent for item in items):
        names = sorted({item.problem.stem for item in items if item.problem.parent == folder})
        command = [sys.executable, "-m", "benchmarks.shapes", "--problems", str(folder), "--out", str(out), *names]
        subprocess.run(command, cwd=PROJECT, check=False)
    return [item.tail for item in items if not (out / f"{item.problem.stem}.json").is_file()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=Path, help="a folder made by benchmarks.candidates")
    parser.add_argument("--problems", type=Path, default=PROJECT / "problems/kernelbench", help="level1_19.py, ...")
    parser.add_argument("--bundled", action="store_true", help="the bundled C++ candidates instead")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="9.0", help="GPU architectures, as in TORCH_CUDA_ARCH_LIST (default: 9.0)")
    parser.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: cores)")
    parser.add_argument("--minutes", type=float, default=9.0, help="the call ends within this (default: 9)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--limit", type=int, help="only the first so many; levels take turns")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: all was measured; 1: the time was over, or a side wrote nothing; 2: bad input."""
    begin_s = time.monotonic()
    arguments = _parser().parse_args(argv)
    arguments.device = "cpu" if arguments.bundled else "cuda"
    if not arguments.bundled and arguments.candidates is None:
        print(
            "compile: say --candidates FOLDER (python -m benchmarks.candidates makes one) or --bundled", file=sys.stderr
        )
        return 2
    if not arguments.bundled and importlib.metadata.version("torch").endswith("+cpu"):
        print(
            "compile: this torch is built for the CPU and refuses CUDA sources: --bundled measures C++", file=sys.stderr
        )
        return 2
    items, missing = (
        (bundled_items(), []) if arguments.bundled else listed_items(arguments.candidates, arguments.problems)
    )
    for one in missing:
        print(f"compile: {one}", file=sys.stderr)
    items = level_by_level(items)[: arguments.limit]
    if not items:
        print("compile: no candidate to compile", file=sys.stderr)
        return 2
    for name in ("candidates", "problems", "out"):
        if getattr(arguments, name) is not None:
            setattr(arguments, name, getattr(arguments, name).absolute())
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    facts = environment(None if arguments.bundled else arguments.arch) | {"at_once": arguments.at_once}
    where = json.dumps(facts, sort_keys=True)
    kept = rows_of_place(arguments.out / "rows.jsonl", facts)
    shapes = arguments.out / "shapes"
    without = make_shapes(items, shapes)
    order = tasks(
        [i for i in items if i.tail not in without], arguments.sides, ((r["candidate"], r["side"]) for r in kept)
    )
    with workplace(arguments.out) as work:
        runner = Runner(arguments, where, shapes, work, begin_s + 60 * arguments.minutes - 5)
        for number_ in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_, runner.stop)
        before_s, start_s = busy_cpu_s(), time.monotonic()
        runner.run(order, arguments.at_once)
        wall_s, machine_s = time.monotonic() - start_s, busy_cpu_s() - before_s
    summary = summarize([*kept, *runner.rows])
    own_s = sum(row["cpu_s"] for row in runner.rows)
    this_call = {
        "measured": len(runner.rows),
        "cut_off": runner.cut,
        "wall_s": round(wall_s, 1),
        "cores_busy": round(own_s / wall_s, 2) if wall_s > 0 else None,
        "machine_cores_busy": round(machine_s / wall_s, 2) if wall_s > 0 else None,
    }
    write(arguments.out / "summary.json", {"environment": facts, "this_call": this_call, "summary": summary})
    print(printable(f"\n{text(summary, facts['cores'], not arguments.bundled)}\n{json.dumps(this_call)}\n{where}"))
    whole = runner.cut == 0 and len(runner.rows) == len(order) and not any(s.faults for s in summary.sides.values())
    return 0 if whole and not without and not missing else 1


if __name__ == "__main__":
    raise SystemExit(main())
