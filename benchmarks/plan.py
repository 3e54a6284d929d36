"""What Snakemake itself costs: planning, starting jobs and having nothing to do, with 250 to 8,750 candidates.

    make bench          or: .venv/bin/python benchmarks/plan.py [CANDIDATES ...] [--json FILE] [--rate-s SECONDS]

Candidates of a made-up run lie in a temporary copy of the workflow; a program that only writes a file takes the place
of every stage, so that no GPU and no compiler is used. Prints a table in Markdown, and every figure as JSON into a
file. CPU seconds hold also on a machine that others use; wall seconds are those of a quiet one only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PROBLEMS = 250
# Candidates to generators and samples; 8,750 is the published run.
SHAPES = {250: (1, 1), 1750: (7, 1), 8750: (7, 5), 17500: (7, 10)}
USUAL = (250, 1750, 8750)
GENERATOR = "results/kernels/g0.parquet"
CANDIDATE = "results/memory/g0/s/level1_1/0.json"
STAGES = ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")

# One byte a job in a file: looking through the results would disturb what is measured.
STAND_IN = """
import json, os, sys

words = sys.argv[1:]
out = words[words.index("--out") + 1]
with open(out + ".tmp", "w") as file:
    json.dump({"stage": words[1], "status": "skipped", "reason": "a stand-in"}, file)
os.replace(out + ".tmp", out)
os.write(os.open("jobs-done", os.O_WRONLY | os.O_CREAT | os.O_APPEND), b".")
"""
SCRIPT = "for path in snakemake.output:\n    open(path, 'w').write('')\n"

# Notes every file as made by its rule, as a finished run would, without the hours that the run takes: the scheduler,
# which would start the jobs, is replaced by one that hands them to Snakemake's own record keeping.
ALL_MADE = """
import sys
from snakemake.cli import main
from snakemake.scheduling.job_scheduler import JobScheduler


def schedule(self):
    async def note():
        for job in list(self.workflow.dag.needrun_jobs()):
            await self.workflow.persistence.finished(job)

    self.workflow.async_run(note())
    return True


JobScheduler.schedule = schedule
sys.exit(main(["--cores", "2", "--touch", "--forceall", "all"]))
"""


@dataclass(frozen=True)
class Cost:
    """One call of Snakemake."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Rate:
    """Jobs while a run is under way, without the planning before."""

    jobs: int
    wall_s_a_job: float
    snakemake_cpu_s_a_job: float
    processes_cpu_s_a_job: float
    """Start and end of a job's shell and of a Python that imports nothing."""


def make(root: Path, candidates: int) -> None:
    """A project with so many candidates (a key of SHAPES), and stand-ins for the stages."""
    for name in ("workflow", "profiles", "src"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(PROJECT / "Snakefile", root)
    write(root / "src/kbverified/__main__.py", STAND_IN)
    for script in ("aggregate", "leaderboard", "page"):
        write(root / f"workflow/scripts/{script}.py", SCRIPT)
    generators, samples = SHAPES[candidates]
    names = [f"g{i}" for i in range(generators)]
    write(root / "config/config.yaml", "selection: {suites: [s], generators: all}\ndevice: cpu\n")
    write(root / "config/generators.tsv", "generator\torigin\n" + "".join(f"{name}\timport\n" for name in names))
    for i in range(PROBLEMS):
        write(root / f"problems/s/{problem(i)}.py", f"# problem {i}\n")
        for tail in (f"{name}/s/{problem(i)}/{sample}" for name in names for sample in range(samples)):
            write(root / f"generations/{tail}.py", f"# candidate {tail}\n")


def make_results(root: Path) -> None:
    """What a whole run leaves: records, tables and Snakemake's memory of what each was made from."""
    for source in (root / "generations").rglob("*.py"):
        tail = source.relative_to(root / "generations").with_suffix("")
        for stage in STAGES:
            write(root / f"results/{stage}/{tail}.json", json.dumps({"stage": stage, "status": "skipped"}))
            write(root / f"benchmarks/out/{stage}/{tail}.tsv", "")
    for source in (root / "problems/s").glob("*.py"):
        write(root / f"results/problems/s/{source.stem}.json", "{}")
    write(root / "results/ceilings/cpu.json", "{}")
    tables = [f"kernels/{folder.name}.parquet" for folder in (root / "generations").iterdir()]
    for path in (*tables, "leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaderboard.html"):
        write(root / "results" / path, "")
    subprocess.run([sys.executable, "-c", ALL_MADE], cwd=root, env=environment(), check=True, capture_output=True)


def problem(i: int) -> str:
    return f"level{i % 3 + 1}_{i + 1}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def environment() -> dict[str, str]:
    return {**os.environ, "KBVERIFIED_SUMMARY": "off"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]


def cost(root: Path, *arguments: str, nothing_to_do: bool = False) -> Cost:
    """One call of Snakemake to its end. Raises RuntimeError where it fails, or finds work unexpectedly."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        run = subprocess.Popen(
            command(*arguments), cwd=root, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
        output.seek(0)
        said = output.read().decode()
    if run.returncode or (nothing_to_do and "Nothing to be done" not in said):
        raise RuntimeError(f"snakemake {' '.join(arguments)} ended with {run.returncode}:\n{said[-3000:]}")
    return Cost(round(wall, 2), round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss * 1024)


def rate(root: Path, seconds: float) -> Rate:
    """Start a run, wait for its first jobs, and watch it for so many seconds or to its end; then kill it."""
    counter = root / "jobs-done"
    run = subprocess.Popen(
        command(), cwd=root, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip

    def now() -> tuple[int, float, float, float]:
        # Fields 14 to 17 of proc(5): user and system time, its own and that of children waited for, in ticks.
        ticks = [int(word) for word in Path(f"/proc/{run.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]]
        own, children = (sum(part) / os.sysconf("SC_CLK_TCK") for part in (ticks[:2], ticks[2:]))
        return counter.stat().st_size if counter.exists() else 0, time.monotonic(), own, children

    try:
        # The first rounds still do once what later ones need not.
        while (first := now())[0] < 50 and run.poll() is None:
            time.sleep(0.1)
        last = first
        while run.poll() is None and last[1] - first[1] < seconds:
            time.sleep(0.5)
            if run.poll() is None:
                last = now()
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    jobs = last[0] - first[0]
    if not jobs:
        raise RuntimeError(f"no job ended within {seconds} s; look at {root}")
    wall, own, children = (round((after - before) / jobs, 4) for before, after in zip(first[1:], last[1:]))
    return Rate(jobs, wall, own, children)


def measure(candidates: int, rate_s: float, root: Path) -> Iterator[tuple[str, Cost | Rate]]:
    """Every figure of one size as soon as it is there, in a project that is made at root."""
    make(root, candidates)
    yield "dry run", cost(root, "--dry-run")
    yield "dry run, one generator", cost(root, "--dry-run", GENERATOR)
    yield "dry run, one candidate", cost(root, "--dry-run", CANDIDATE)
    if rate_s:
        yield "running", rate(root, rate_s)
        for left in (".snakemake", "results", "logs", "benchmarks"):
            shutil.rmtree(root / left, ignore_errors=True)
    make_results(root)
    yield "no-op", cost(root, nothing_to_do=True)
    yield "no-op, one generator", cost(root, GENERATOR, nothing_to_do=True)
    yield "no-op, one candidate", cost(root, CANDIDATE, nothing_to_do=True)
    yield "report", cost(root, "--report", "report.html")


def row(candidates: int, what: str, figure: Cost | Rate) -> str:
    """A line of the table."""
    if isinstance(figure, Cost):
        text = f"{figure.wall_s:.1f} s | {figure.cpu_s:.1f} s | {figure.peak_bytes / 2**30:.2f} GiB"
    else:
        own, processes = figure.snakemake_cpu_s_a_job * 1e3, figure.processes_cpu_s_a_job * 1e3
        text = f"{figure.wall_s_a_job * 1e3:.0f} ms a job | {own:.0f} + {processes:.0f} ms a job |"
    return f"| {candidates:,} | {what} | {text} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "candidates", nargs="*", type=int, help=f"some of {', '.join(map(str, SHAPES))} (default: all but the last)"
    )
    parser.add_argument("--json", type=Path, default=PROJECT / "benchmarks/out/plan.json", help="file for all figures")
    parser.add_argument("--rate-s", type=float, default=60, help="seconds to watch running jobs; 0: leave that out")
    arguments = parser.parse_args()
    if unknown := set(arguments.candidates) - set(SHAPES):
        parser.error(f"candidates {unknown}: choose from {', '.join(map(str, SHAPES))}")
    measured: dict[int, dict[str, object]] = {}
    print("| candidates | what | wall | CPU (a job: Snakemake + its processes) | peak memory |\n|---|---|---|---|---|")
    for candidates in arguments.candidates or USUAL:
        measured[candidates] = {}
        with tempfile.TemporaryDirectory() as folder:
            for what, figure in measure(candidates, arguments.rate_s, Path(folder) / "project"):
                measured[candidates][what] = asdict(figure)
                print(row(candidates, what, figure), flush=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "measured": measured}
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
