"""Everything that is to be measured on a GPU machine, in one call of so many minutes.

    python -m benchmarks.on_gpu --kernelbench ../KernelBench/KernelBench --from ../candidates --out out --minutes 9
    python -m benchmarks.on_gpu --rehearse --out /tmp/out --minutes 5          # on a CPU, with the bundled suite

Three steps, each in a copy of this project with nothing in it but what it needs; ``--only`` chooses among them.

    references   renamed references (level1_19, level2_12), --samples of each, alone on the machine: holds of the stages
    end-to-end   the first candidates of the fixed list through the workflow: candidates an hour, holds, memory
    compile      the fixed list compiled here and by torch's plain builder (benchmarks/compile.py)

Into --out: report.md (every table), numbers.json, an archive of records for each run, rows.jsonl of the compile step,
the ends of Snakemake's logs. A step that fails is said and the others go on. With --out from an earlier call the
compile step goes on where it stopped; the runs start afresh.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import candidates as listing
from benchmarks import compile as compiling
from benchmarks import compile_rows, end_to_end, holds, peaks
from benchmarks.references import GENERATOR, write_reference
from benchmarks.run_records import load
from benchmarks.summaries import environment, write
from kbverified import lease
from kbverified.keys import CandidateKey, ProblemKey

PROJECT = Path(__file__).resolve().parents[1]
STEPS = ("references", "end-to-end", "compile")
SHARE = {"references": 0.6, "end-to-end": 1.2, "compile": 1.0}
"""In which proportion the steps share the minutes; what one leaves over is for those after it."""
_KEPT_LOG_BYTES = 200_000


@dataclass(frozen=True)
class Scope:
    """What is measured on: KernelBench on a GPU, or the bundled suite on a CPU."""

    suite: str
    device: str
    references: tuple[str, ...]
    arch: str | None


def scope(rehearse: bool) -> Scope:
    """Raises NoDevice where a GPU is asked for and none is there."""
    if rehearse:
        return Scope("bundled", "cpu", ("level1_1", "level2_2"), None)
    lease.require("cuda")
    return Scope("kernelbench", "cuda", ("level1_19", "level2_12"), lease.visible_gpus()[0].compute_capability)


# --- the copy -----------------------------------------------------------------------------------------------
def make_project(root: Path, where: Scope, arguments: argparse.Namespace) -> None:
    """The workflow, problems, candidates, and a configuration for them. Raises CalledProcessError, OSError."""
    shutil.rmtree(root, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("workflow", "profiles", "src", "config"):
        shutil.copytree(PROJECT / name, root / name, ignore=ignored)
    shutil.copy(PROJECT / "Snakefile", root)
    if where.suite == "bundled":
        shutil.copytree(PROJECT / "problems/bundled", root / "problems/bundled", ignore=ignored)
        shutil.copytree(PROJECT / "generations/bundled-honest", root / "generations/bundled-honest", ignore=ignored)
    else:
        command(root, "import-problems", "--from", str(arguments.kernelbench.absolute()), "--suite", where.suite)
        for folder in sorted(path for path in candidate_folder(arguments).iterdir() if path.is_dir()):
            command(root, "import-runs", "--from", str(folder), "--generator", folder.name, "--suite", where.suite)
    generators = sorted({GENERATOR, *(path.name for path in (root / "generations").glob("*") if path.is_dir())})
    rows = "".join(f"{name}\timport\tfp32\tany\n" for name in generators)
    (root / "config/bench.tsv").write_text(f"generator\torigin\tdtype\tdevices\n{rows}")
    (root / "config/bench.yaml").write_text(configuration(where))
    for name in where.references:
        for sample in range(arguments.samples):
            write_reference(ProblemKey(where.suite, name), root, sample)


def configuration(where: Scope) -> str:
    """YAML: everything that is there, on one device; limits as in config/kernelbench.yaml."""
    lines = [
        f"selection: {{suites: [{where.suite}], generators: all, problems: all, samples: all}}",
        "generators_tsv: config/bench.tsv",
        f"device: {where.device}",
        "timeouts_s: {audit-problem: 600, compile: 900, hidden-gate: 300, time-fp32: 300, time-tf32: 300, memory: 120}",
    ]
    if where.arch:
        lines.append(f'compile: {{arch: "{where.arch}"}}')
    return "\n".join(lines) + "\n"


def command(root: Path, *words: str) -> None:
    """One command of ours in the copy. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "kbverified", *words], cwd=root, env=variables(root), check=True)


def variables(root: Path) -> dict[str, str]:
    """The environment in which the copy's own code runs, and nothing of this folder is importable."""
    told = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    path = [str(root / "src"), *told]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def candidate_folder(arguments: argparse.Namespace) -> Path:
    return arguments.out / "candidates"


# --- the steps ----------------------------------------------------------------------------------------------
def run_list(root: Path, name: str, lines: Sequence[str], minutes: float, out: Path) -> dict[str, Any]:
    """device-run of a list in the copy, watched; its tables as text and its numbers.

    Raises what the readers of its archive raise where it left none that can be read.
    """
    (root / f"{name}.txt").write_text("\n".join(lines) + "\n")
    for stale in ("results", "logs", ".build", ".snakemake", "benchmarks"):
        shutil.rmtree(root / stale, ignore_errors=True)
    archives = root / f"out-{name}"
    words = ["device-run", "--list", f"{name}.txt", "--out", archives.name, "--minutes", f"{minutes:.2f}", "--no-audit"]
    words += ["--config", "config/bench.yaml", "--grace-s", "10", "--reserve-s", "10"]
    words += ["--revision", os.environ.get("KBV_REVISION") or "a copy of the working tree"]
    code, seconds, watch = peaks.watched([sys.executable, "-m", "kbverified", *words], cwd=root, env=variables(root))
    for path in archives.glob("records-*.tar.xz"):
        shutil.copy(path, out / f"records-{name}.tar.xz")
    for path in archives.glob("snakemake-*.log"):
        (out / f"snakemake-{name}.log").write_bytes(path.read_bytes()[-_KEPT_LOG_BYTES:])
    run = load(sorted(archives.glob("records-*.tar.xz")))
    processes = list(watch.processes.values())
    kept = holds.summarize(run, len(os.sched_getaffinity(0)), peaks.cpu_by_stage(processes))
    whole = end_to_end.measure(name, run)
    roles = peaks.summarize(processes)
    tables = [holds.text(kept), end_to_end.text([whole]), peaks.text(roles, watch.together_bytes)]
    numbers = {"exit": code, "wall_s": seconds, "holds": kept, "end_to_end": whole, "peaks": roles}
    return {"text": "\n\n".join(tables), "numbers": {**numbers, "together_bytes": watch.together_bytes}}


def step(name: str, root: Path, where: Scope, minutes: float, arguments: argparse.Namespace) -> dict[str, Any]:
    """One step within so many minutes. Raises whatever keeps it from having numbers."""
    if name == "compile":
        return compile_step(where, minutes, arguments)
    if name == "references":
        samples = range(arguments.samples)
        keys = [CandidateKey(GENERATOR, where.suite, problem, n) for problem in where.references for n in samples]
        lines = [str(key) for key in keys]
    elif where.suite == "bundled":
        folder = root / "generations/bundled-honest/bundled"
        lines = [f"bundled-honest/bundled/{path.parent.name}/{path.stem}" for path in sorted(folder.glob("*/*.py"))]
    else:
        there = listing.in_folder(listing.read_list(), candidate_folder(arguments))
        problem = {one.tail: one.problem for one in listing.read_list()}
        items = [compiling.Item(tail, path, Path(f"{problem[tail]}.py")) for tail, path in there.items()]
        lines = [item.tail for item in compiling.level_by_level(items)]
    return run_list(root, name, lines[: arguments.limit], minutes, arguments.out)


def compile_step(where: Scope, minutes: float, arguments: argparse.Namespace) -> dict[str, Any]:
    out = arguments.out / "compile"
    words = ["--out", str(out), "--minutes", f"{minutes:.2f}"]
    if where.device == "cpu":
        words += ["--bundled"]
    else:
        words += ["--candidates", str(candidate_folder(arguments)), "--arch", str(where.arch)]
        words += ["--problems", str(arguments.out / "project/problems" / where.suite)]
    if arguments.limit:
        words += ["--limit", str(arguments.limit)]
    code = compiling.main(words)
    shutil.copy(out / "rows.jsonl", arguments.out / "rows.jsonl")
    numbers = json.loads((out / "summary.json").read_text())
    summary = compile_rows.summarize(compile_rows.rows_of_place(out / "rows.jsonl", numbers["environment"]))
    table = compile_rows.text(summary, numbers["environment"]["cores"], where.device == "cuda")
    shown = f"{table}\n\n{json.dumps(numbers['this_call'])}"
    return {"text": shown, "numbers": {"exit": code, **numbers}}


# --- command ------------------------------------------------------------------------------------------------
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernelbench", type=Path, help="a KernelBench checkout's folder of levels, commit 423217d")
    parser.add_argument("--from", dest="folders", type=Path, nargs="+", default=[], help="where the candidates are")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="the whole call ends within this (default: 9)")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--samples", type=int, default=3, help="of each renamed reference (default: 3)")
    parser.add_argument("--limit", type=int, help="candidates of each list at most")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, with the bundled suite")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: every step has numbers; 1: some have none; 2: bad input."""
    begin_s = time.monotonic()
    arguments = _parser().parse_args(argv)
    arguments.out = arguments.out.absolute()
    arguments.out.mkdir(parents=True, exist_ok=True)
    root = arguments.out / "project"
    try:
        where = scope(arguments.rehearse)
        if not arguments.rehearse:
            if arguments.kernelbench is None or not arguments.folders:
                raise ValueError("say --kernelbench FOLDER and --from FOLDER..., or --rehearse")
            if listing.main(["--from", *map(str, arguments.folders), "--into", str(candidate_folder(arguments))]) == 2:
                return 2
        make_project(root, where, arguments)
    except (lease.NoDevice, ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"on_gpu: {error}", file=sys.stderr)
        return 2
    facts = environment(where.arch)
    report, numbers, failed = (
        [f"# Benchmarks\n\n```json\n{json.dumps(facts, indent=1)}\n```"],
        {"environment": facts},
        0,
    )
    chosen = [name for name in STEPS if name in arguments.only]
    for name in chosen:
        left = arguments.minutes - (time.monotonic() - begin_s) / 60 - 0.1
        shares = [SHARE[later] for later in chosen[chosen.index(name) :]]
        minutes = left * (SHARE[name] / sum(shares) if name != "compile" else 1.0)
        try:
            found = step(name, root, where, minutes, arguments)
        except Exception as error:  # the other steps have numbers all the same
            found = {"text": f"no numbers: {type(error).__name__}: {error}", "numbers": None}
            failed += 1
        report.append(f"## {name}\n\n{found['text']}")
        numbers[name] = found["numbers"]
        (arguments.out / "report.md").write_text("\n\n".join(report) + "\n")
        write(arguments.out / "numbers.json", numbers)
        print(f"\n## {name}\n\n{found['text']}", flush=True)
    print(
        f"on_gpu: {time.monotonic() - begin_s:.0f} s of {60 * arguments.minutes:.0f} s; {arguments.out / 'report.md'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
