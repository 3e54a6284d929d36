"""Which mutants are equivalents? Decided here, before the gate runs, and never changed after. Torch-free.

A mutant that does not compile is dropped. One whose output is bitwise its parent's on every screening input is taken
for an equivalent: the inputs are 16 laws, with sizes from 1e-6 to 1e4, all but the first with moved weights, in memory
that is poisoned and guarded (``screen_worker.py``, ``guard.c``), and so are more and wider than the gate's. At most a
tenth of a run's mutants may be left out as equivalents: of more, those with the smallest ids are, and the rest stay in
and count as what the gate says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.mutation import running
from benchmarks.mutation.parents import PROJECT
from benchmarks.mutation.running import Kernel, Work
from kbverified.records.files import write_text

EXCLUDED_SHARE_MAX = 0.1
"""Of the mutants that compile."""
EQUAL = "bitwise equal"
"""How the reason of a mutant begins that differs from its parent on no input."""
GROUPS_PER_GPU = 4
PARENT_DOES_NOT_RUN = 3
"""Exit code of ``screen_worker``."""
GUARD = Path(__file__).with_name("guard.c")


def screen(work: Work, kernels: Sequence[Kernel], device: str, jobs: int, until_s: float = float("inf")) -> bool:
    """Write ``screened.jsonl``: what becomes of each mutant, and why. A list that has them all stays what it is.

    What was seen of a mutant is kept in ``seen.jsonl``, so that a longer list asks for the new ones only. False: the
    time was over (``time.monotonic``), and there is no list for these yet. Raises RuntimeError, OSError.
    """
    if work.screened.is_file() and read(work).keys() >= {k.name for k in kernels if k.mutant is not None}:
        print("screen: the list is there, and stays what it is")
        return True
    without = [kernel.name for kernel in kernels if running.compiled(work, kernel) is None]
    if without:
        raise RuntimeError(f"{len(without)} kernels have no compile record, {without[0]} first: run the step build")
    seen = _seen(work)
    for kernel in kernels:
        record = running.compiled(work, kernel)
        assert record is not None
        if kernel.mutant is not None and record.verdict != "pass":
            why = next((b.log_tail for b in record.builds if not b.ok), record.detail or "")
            seen[kernel.name] = {
                "id": kernel.name,
                "outcome": "does not build",
                "reason": f"{record.verdict}: {why[-200:]}",
            }
    parents = [kernel for kernel in kernels if kernel.mutant is None]
    groups = [[p, *(k for k in _mutants_of(work, p, kernels) if k.name not in seen)] for p in parents]
    groups = [group for group in groups if len(group) > 1]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once(device, jobs)) as pool:
        guard = _guard(Path(folder)) if device == "cpu" else None
        uuids = gpus(device)

        def one(numbered: tuple[int, list[Kernel]]) -> list[dict[str, Any]]:
            number, group = numbered
            return (
                []
                if time.monotonic() > until_s
                else _screen_group(work, group, device, guard, uuids[number % len(uuids)])
            )

        for found in pool.map(one, enumerate(groups)):
            seen.update({line["id"]: line for line in found})
            write_text(work.seen, "".join(json.dumps(line) + "\n" for line in seen.values()))
    mine = [kernel.name for kernel in kernels if kernel.mutant is not None]
    if any(name not in seen for name in mine):
        print(f"screen: {sum(name not in seen for name in mine)} of {len(mine)} mutants are left, and no time")
        return False
    lines = {name: dict(seen[name]) for name in mine}
    _exclude(lines)
    write_text(work.screened, "".join(json.dumps(lines[name]) + "\n" for name in mine))
    counts = {name: sum(line["outcome"] == name for line in lines.values()) for name in ("kept", "equivalent")}
    print(f"screen: {counts}, {len(lines) - sum(counts.values())} do not build")
    return True


def _seen(work: Work) -> dict[str, dict[str, Any]]:
    """What was seen of mutants so far, by their ids."""
    return {x["id"]: x for x in map(json.loads, work.seen.read_text().splitlines())} if work.seen.is_file() else {}


def wants_build(work: Work, kernels: Iterable[Kernel]) -> Callable[[Kernel], bool]:
    """Of a kernel: whether the screening or the gate will still run it. An archive of a run holds no builds."""
    seen, digest = _seen(work), running.gate_digest()
    kept = {name for name, line in read(work).items() if line["outcome"] == "kept"} if work.screened.is_file() else ()
    to_compare = {k.parent.name for k in kernels if k.mutant is not None and k.name not in seen}

    def wants(kernel: Kernel) -> bool:
        if kernel.mutant is None and kernel.parent.name in to_compare:
            return True
        line = seen.get(kernel.name)
        if kernel.mutant is not None and line is None:
            return True
        # Of those that are equal only who is not left out goes to the gate, and the list says later who that is.
        equal = line is not None and line["outcome"] == "equal" and kernel.name not in kept
        return not equal and not running.is_gated(work, kernel, digest)

    return wants


def gpus(device: str) -> list[str | None]:
    from kbverified.lease import visible_gpus

    return [gpu.uuid for gpu in visible_gpus()] or [None] if device == "cuda" else [None]


def at_once(device: str, jobs: int) -> int:
    """Groups at a time: on a GPU each has its problem's inputs there, which may be gigabytes."""
    return jobs if device == "cpu" else max(1, min(jobs, GROUPS_PER_GPU * len(gpus(device))))


def _mutants_of(work: Work, parent: Kernel, kernels: Iterable[Kernel]) -> list[Kernel]:
    mine = [kernel for kernel in kernels if kernel.mutant is not None and kernel.parent.name == parent.parent.name]
    return list(running.that_built(work, mine))


def left_out(equal: Iterable[str], built: int) -> set[str]:
    """Of the mutants that are equal, by id, those that are left out: the smallest ids, a tenth of all that build."""
    return set(sorted(equal)[: int(EXCLUDED_SHARE_MAX * built)])


def _exclude(lines: dict[str, dict[str, Any]]) -> None:
    """Turn ``equal`` and ``differs`` into what becomes of the mutant: equivalent or kept."""
    built = [line for line in lines.values() if line["outcome"] != "does not build"]
    out = left_out((line["id"] for line in built if line["outcome"] == "equal"), len(built))
    for line in built:
        if line["id"] in out:
            line["outcome"] = "equivalent"
        elif line["outcome"] == "equal":
            line["outcome"], line["reason"] = "kept", f"{line['reason']}, but a tenth is left out already"
        else:
            line["outcome"] = "kept"


def _guard(folder: Path) -> Path:
    """The preloaded allocator, built. Raises RuntimeError where the compiler refuses."""
    library = folder / "guard.so"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(library), str(GUARD), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")
    return library


def _screen_group(
    work: Work, group: Sequence[Kernel], device: str, guard: Path | None, gpu: str | None
) -> list[dict[str, Any]]:
    """Lines of one parent's mutants. Raises RuntimeError with the worker's own words.

    Mutants of a parent that does not run on the screening inputs are not screened, and so none is an equivalent.
    """

    def told(kernel: Kernel) -> dict[str, str]:
        record = running.compiled(work, kernel)
        assert record is not None
        return {"id": kernel.name, "source": str(work.source(kernel.name)), "build": str(record.build_directory)}

    parent = group[0]
    request = {
        "device": device,
        "problem": str(parent.parent.problem),
        "parent": told(parent),
        "mutants": [told(kernel) for kernel in group[1:]],
    }
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    if guard is not None:
        environment["LD_PRELOAD"] = str(guard)
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mutation.screen_worker"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=environment,
    )
    if done.returncode == PARENT_DOES_NOT_RUN:
        why = f"not screened: {done.stderr.strip()[-200:]}"
        return [{"id": kernel.name, "outcome": "differs", "reason": why} for kernel in group[1:]]
    if done.returncode:
        raise RuntimeError(f"screening {parent.name} ended with {done.returncode}: {done.stderr[-800:]}")
    print(f"screen: {parent.name}, {len(group) - 1} mutants", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def read(work: Work) -> dict[str, dict[str, Any]]:
    """The list's lines by id. Raises FileNotFoundError."""
    return {line["id"]: line for line in map(json.loads, work.screened.read_text(encoding="utf-8").splitlines())}


def require(work: Work, kernels: Sequence[Kernel]) -> list[Kernel]:
    """Parents and kept mutants, in order. Raises ValueError where the list is not there or lacks a mutant."""
    if not work.screened.is_file():
        raise ValueError(f"{work.screened} is not there: equivalents are fixed before the gate. Run the step screen.")
    lines = read(work)
    missing = [k.name for k in kernels if k.mutant is not None and k.name not in lines]
    if missing:
        raise ValueError(
            f"{work.screened}: {len(missing)} mutants are not in it, {missing[0]} first. Run screen again."
        )
    return [k for k in kernels if k.mutant is None or lines[k.name]["outcome"] == "kept"]
