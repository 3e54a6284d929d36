"""Thousands of candidates through every stage on the CPU device: does anything grow, stay behind, or change its mind?

    make soak [CANDIDATES=2000] [MINUTES=9]     or: .venv/bin/python -m benchmarks.soak --help

The bundled candidates are repeated under many names in a copy of the project and go through one Snakemake with one
evaluator. Nothing is measured: in the copy a timing takes two rounds of a few milliseconds. A run that meets its limit
goes on when it is called again. Prints a summary as JSON; a report in Markdown lies beside it. Exit code 0: through,
and nothing found; 1: something found; 3: not through yet, call it again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import soak_report
from benchmarks.left_behind import Watch
from benchmarks.soak_samples import sample
from kbverified.deadline import Ended, run_until

PROJECT = Path(__file__).resolve().parents[1]
OUT = PROJECT / "benchmarks/out/soak"
GENERATORS = 4
SAMPLE_EVERY_S = 2.0
EVALUATOR_IDLE_S = 20.0
"""Longer than any moment in which no job asks for one: one evaluator is to serve them all."""
DEAR = ("timeout",)
"""Expected verdicts whose candidates take a whole time limit: these come once in so many rounds."""
DEAR_EVERY = 10
CONFIG = """
selection: {suites: [bundled], generators: all}
generators_tsv: config/generators.tsv
device: cpu
evaluator: true
timing: {budget_s: 0.05}
timeouts_s: {audit-problem: 300, compile: 600, hidden-gate: 20, time-fp32: 60, time-tf32: 60, memory: 60}
"""
LESS_TIMING = {
    "TIMING_ROUNDS_MIN": "2",
    "TIMING_ROUNDS_MAX": "2",
    "TIMING_TURN_MS": '{"cuda": 8.0, "cpu": 2.0}',
    "TIMING_REPETITIONS_MAX": "2",
    "TIMING_WARMUP_BUDGET_MS": "10.0",
    "TIMING_BATCH_BUDGET_MS": "20.0",
}
"""Constants in the copy. What is asked is whether the stages run and end cleanly, not how exact a time is."""


def bundled() -> list[tuple[Path, dict[str, Any]]]:
    """Bundled candidates that a CPU can run, with their metadata."""
    found = []
    for path in sorted((PROJECT / "generations").glob("bundled-*/bundled/*/*.py")):
        metadata = json.loads(path.with_suffix(".json").read_text())
        if (metadata.get("settings") or {}).get("devices") in (None, "any", "cpu"):
            found.append((path, metadata))
    return found


def make(root: Path, candidates: int) -> dict[str, str]:
    """A copy of the project with so many candidates; from the tail of each to the bundled file that it is."""
    for name in ("workflow", "profiles", "src"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(PROJECT / "problems/bundled", root / "problems/bundled")
    shutil.copy(PROJECT / "Snakefile", root)
    protocol = root / "src/kbverified/protocol.py"
    text = protocol.read_text()
    for name, value in LESS_TIMING.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert count == 1, f"{name} is not in {protocol}"
    protocol.write_text(text)
    (root / "config").mkdir()
    (root / "config/config.yaml").write_text(CONFIG)
    names = [f"soak-{i}" for i in range(GENERATORS)]
    (root / "config/generators.tsv").write_text("generator\torigin\n" + "".join(f"{n}\timport\n" for n in names))
    return _copies(root, names, candidates)


def _copies(root: Path, names: list[str], candidates: int) -> dict[str, str]:
    origins: dict[str, str] = {}
    sources = bundled()
    repeat = 0
    while len(origins) < candidates:
        for number, (path, metadata) in enumerate(sources):
            if len(origins) == candidates:
                break
            if metadata.get("expected_verdict") in DEAR and repeat % DEAR_EVERY:
                continue
            # Repeats of one candidate go to all generators in turn.
            tail = f"{names[repeat % len(names)]}/bundled/{path.parent.name}/{repeat * len(sources) + number}"
            copy = root / "generations" / f"{tail}.py"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
            shutil.copy(path.with_suffix(".json"), copy.with_suffix(".json"))
            origins[tail] = path.relative_to(PROJECT / "generations").as_posix()
        repeat += 1
    return origins


def run(work: Path, cores: int, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """Run Snakemake until it ends, or its time does; (what happened, what was left behind)."""
    root = work / "project"
    folder = Path(tempfile.mkdtemp(prefix="kbv-soak-"))
    watch = Watch(folder, EVALUATOR_IDLE_S)
    samples: list[dict[str, Any]] = []
    begin = time.monotonic()

    def tick() -> None:
        now = time.monotonic() - begin
        if not samples or now - samples[-1]["at_s"] >= SAMPLE_EVERY_S:
            samples.append({"at_s": round(now, 1), **sample(watch, root / "results")})

    # A timing claims every core for the sake of its times, and these are of nobody's interest.
    command = [sys.executable, "-m", "snakemake", "--cores", str(cores), "--set-threads", "time=1"]
    limit_s = minutes * 60 if minutes is not None else 7 * 24 * 3600.0
    more = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # a folder of wheels, say
    path = os.pathsep.join([str(root / "src"), *(os.path.abspath(one) for one in more)])
    environment = {**os.environ, **watch.environment, "PYTHONPATH": path, "KBVERIFIED_SUMMARY": "off"}
    stop_s, kill_s = max(limit_s - 95.0, limit_s * 0.7), max(limit_s - 50.0, limit_s * 0.85)
    before = _done(root)
    try:
        with open(work / "snakemake.log", "ab") as log:
            ended = run_until(
                command, stop_at_s=begin + stop_s, kill_at_s=begin + kill_s, log=log, cwd=root,
                environment=environment, tick=tick,
            )  # fmt: skip
        left = watch.wait(EVALUATOR_IDLE_S + 20.0, records=root / "results", evaluators=False)
    finally:
        watch.close()
        shutil.rmtree(folder, ignore_errors=True)
    return _segment(root, ended, samples, before, left), left


def _segment(root: Path, ended: Ended, samples: list[dict[str, Any]], before: int, left: list[str]) -> dict[str, Any]:
    # Judges and workers are in it, for their evaluator is adopted and reaped.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "ended": ended.stopped or f"exit code {ended.returncode}",
        "duration_s": round(ended.duration_s, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "candidates": _done(root) - before,
        "samples": samples,
        "left_behind": left,
    }


def _done(root: Path) -> int:
    return sum(1 for _ in (root / "results/memory").rglob("[0-9]*.json"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, help="limit of this call, everything included; none")
    parser.add_argument("--out", type=Path, default=OUT, help="the copy of the project, its log, summary and report")
    arguments = parser.parse_args()
    work = arguments.out.absolute() / str(arguments.candidates)
    if not (work / "origins.json").exists():
        shutil.rmtree(work, ignore_errors=True)
        origins = make(work / "project", arguments.candidates)
        (work / "origins.json").write_text(json.dumps(origins))
    segment, _ = run(work, arguments.cores, arguments.minutes)
    segment["cores"] = arguments.cores
    segments = work / "segments.jsonl"
    with segments.open("a") as file:
        file.write(json.dumps(segment) + "\n")
    summary = soak_report.summarise(work)
    (work / "soak.json").write_text(json.dumps(summary, indent=1) + "\n")
    (work / "soak.md").write_text(soak_report.markdown(summary))
    print(json.dumps(summary, indent=1))
    print(f"report: {work / 'soak.md'}", file=sys.stderr)
    if summary["found"]:
        return 1
    return 0 if summary["through"] else 3


if __name__ == "__main__":
    raise SystemExit(main())
