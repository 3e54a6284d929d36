"""How long Snakemake takes to plan, and how fast it starts jobs, with 250 and 1,750 candidates of a made-up run.

    make bench                              or: .venv/bin/python benchmarks/plan.py [CANDIDATES ...]

The candidates lie in a temporary copy of the workflow. For the rate of jobs a command that only writes a file takes
the place of every stage. Prints a table in Markdown.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PROBLEMS = 250

STAND_IN = """
import json, os, sys

words = sys.argv[1:]
out = words[words.index("--out") + 1]
with open(out + ".tmp", "w") as file:
    json.dump({"stage": words[1], "status": "skipped", "reason": "a stand-in"}, file)
os.replace(out + ".tmp", out)
"""
SCRIPT = "for path in snakemake.output:\n    open(path, 'w').write('')\n"


def make(root: Path, candidates: int) -> None:
    """A project with so many candidates, a generator for each 250 of them, and stand-ins for the stages."""
    for name in ("workflow", "profiles", "src"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(PROJECT / "Snakefile", root)
    (root / "src/kbverified/__main__.py").write_text(STAND_IN)
    for script in ("aggregate", "leaderboard"):
        (root / f"workflow/scripts/{script}.py").write_text(SCRIPT)
    generators = [f"g{i}" for i in range(-(-candidates // PROBLEMS))]
    write(root / "config/config.yaml", "selection: {suites: [s], generators: all}\ndevice: cpu\n")
    write(root / "config/generators.tsv", "generator\torigin\n" + "".join(f"{g}\timport\n" for g in generators))
    for i in range(min(candidates, PROBLEMS)):
        write(root / f"problems/s/{problem(i)}.py", f"# problem {i}\n")
    for i in range(candidates):
        write(root / f"generations/{generators[i // PROBLEMS]}/s/{problem(i % PROBLEMS)}/0.py", f"# candidate {i}\n")


def problem(i: int) -> str:
    return f"level{i % 3 + 1}_{i + 1}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def timed(root: Path, *arguments: str) -> float:
    """Seconds of one call of Snakemake. Raises CalledProcessError."""
    start = time.monotonic()
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def main(sizes: list[int]) -> None:
    print("| candidates | dry run, all | dry run, one generator | jobs a second | no-op | memory |")
    print("|---|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            make(root, size)
            dry, one = timed(root, "--dry-run"), timed(root, "--dry-run", "results/kernels/g0.parquet")
            rate = noop = "–"
            if size <= PROBLEMS:
                jobs = 5 * size + PROBLEMS
                rate, noop = f"{jobs / timed(root):.0f}", f"{timed(root):.1f} s"
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            print(f"| {size:,} | {dry:.1f} s | {one:.1f} s | {rate} | {noop} | {memory:.2f} GiB |", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [250, 1750])
