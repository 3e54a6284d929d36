"""At which sizes is a parent tried? On the first variant of its problem that it passes hidden and hardened on.

Decided on the GPU before there is a list of mutants, by the parent's own records alone: it is compiled and gated on the
variants of ``odd_sizes.py`` in their order, and the problem as it is comes last. What was decided stays: it is kept in
``variants.json``, and the problems in ``problems/SUITE-VARIANT/``. The records of the variant that was taken are the
parent's records from then on. Torch-free.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.mutation import odd_sizes, running
from benchmarks.mutation.parents import PROJECT, Parent, file_sha256
from benchmarks.mutation.running import Kernel, Stages, Work
from kbverified.records.files import write_text

Decided = dict[str, dict[str, Any]]
"""By parent: ``variant``, the sha256 of its ``source``, of its ``problem`` as it is and as it was ``used``, and
``tried``: what became of every variant, in their order."""


def read(work: Work) -> Decided:
    """What was decided so far; nothing where nothing was."""
    return json.loads(work.variants.read_text(encoding="utf-8")) if work.variants.is_file() else {}


def choose(work: Work, stages: Stages, found: Sequence[Parent]) -> bool:
    """Decide for every parent that has no variant yet. False: the time was over, and some have none.

    A fault of the machine is no verdict: who left no record is asked once more, and then for the next variant. Without
    a record of the last one a parent stays undecided, and ``stages.faults`` says so. Raises ValueError for a folder
    that was begun without variants, OSError, RuntimeError.
    """
    decided, digest = read(work), running.gate_digest()
    if not decided and work.seen.exists():
        raise ValueError(f"{work.root}: was screened without variants of the problems. Begin a new folder.")
    waiting = [parent for parent in found if not _is_decided(decided, parent)]
    print(f"variants: {len(found) - len(waiting)} of {len(found)} are decided", flush=True)
    queues = [(parent, problems(work, parent, names)) for parent, names in _wanted(waiting)] if waiting else []
    tried: dict[str, dict[str, str]] = {parent.name: {} for parent in waiting}
    again: set[str] = set()
    while queues:
        kernels = [running.honest(work, tries[0]) for _, tries in queues]
        stages.compile(kernels, builds=lambda kernel: not running.is_gated(work, kernel, digest))
        stages.gate(list(running.that_built(work, kernels)))
        in_time, left = time.monotonic() <= stages.until_s, []
        for (parent, tries), kernel in zip(queues, kernels, strict=True):
            verdict = _verdict(work, kernel, digest)
            if verdict is None and (kernel.name not in again or not in_time):
                again.add(kernel.name)
                left.append((parent, tries))
                continue
            tried[parent.name][tries[0].variant] = verdict or "no record: a fault of the machine"
            if verdict == "pass" or (verdict is not None and len(tries) == 1):
                decided[parent.name] = _decision(parent, tries[0], tried[parent.name])
                print(f"variants: {parent.name}: {tries[0].variant} {tried[parent.name]}", flush=True)
            elif len(tries) > 1:
                left.append((parent, tries[1:]))
        write_text(work.variants, json.dumps(decided, indent=1, sort_keys=True))
        if not in_time:
            return not left
        queues = left
    return True


def _decision(parent: Parent, used: Parent, tried: dict[str, str]) -> dict[str, Any]:
    return {
        "variant": used.variant,
        "source": file_sha256(parent.path),
        "problem": file_sha256(parent.problem),
        "used": file_sha256(used.problem),
        "tried": tried,
    }


def apply(work: Work, found: Iterable[Parent]) -> tuple[list[Parent], list[str]]:
    """The parents with the problems that were decided on; why others are left out.

    Raises ValueError where a problem's file is not the one that the parent passed.
    """
    decided, chosen, missing = read(work), [], []
    for parent in found:
        if not _is_decided(decided, parent):
            missing.append(f"{parent.name}: no variant of its problem is decided on: run the step variants")
            continue
        line = decided[parent.name]
        (one,) = problems(work, parent, [line["variant"]])
        if file_sha256(one.problem) != line["used"]:
            raise ValueError(f"{one.problem}: is not what {work.variants} says (sha256 differs). Begin a new folder.")
        chosen.append(one)
    return chosen, missing


def problems(work: Work, parent: Parent, names: Iterable[str]) -> list[Parent]:
    """The parent with each of these variants of its problem, whose files are written. Raises KeyError, OSError."""
    sources = odd_sizes.candidates(parent.problem.read_text(encoding="utf-8"))
    found = []
    for name in names:
        folder = work.root / "problems" / f"{parent.problem.parent.name}-{name}"
        path = parent.problem if name == odd_sizes.NONE else folder / parent.problem.name
        if name != odd_sizes.NONE and not path.is_file():
            write_text(path, sources[name])
            path.chmod(0o644)
        found.append(replace(parent, problem=path, variant=name))
    return found


def _is_decided(decided: Decided, parent: Parent) -> bool:
    line = decided.get(parent.name, {})
    return (line.get("source"), line.get("problem")) == (file_sha256(parent.path), file_sha256(parent.problem))


def _verdict(work: Work, kernel: Kernel, digest: str) -> str | None:
    """``pass`` of both tests, or what became of it; None where there is no record of this gate (``gate_digest``)."""
    record = running.compiled(work, kernel)
    if record is None:
        return None
    if record.verdict != "pass":
        return f"compile: {record.verdict}"
    said = running.judged(work, kernel) if running.is_gated(work, kernel, digest) else None
    if said is None:
        return None
    words = [f"{test} {said[test].verdict}" for test in ("hidden", "hardened") if said[test].verdict != "pass"]
    return ", ".join(words) or "pass"


def _wanted(waiting: Sequence[Parent]) -> list[tuple[Parent, list[str]]]:
    """For each parent the variants that its reference accepts, in order. Raises RuntimeError, OSError."""
    with tempfile.TemporaryDirectory() as folder:
        asked: dict[tuple[str, str], Path] = {}
        for number, parent in enumerate(waiting):
            for name, source in odd_sizes.candidates(parent.problem.read_text(encoding="utf-8")).items():
                path = Path(folder) / f"{number}-{name}" / parent.problem.name
                path.parent.mkdir()
                path.write_text(source, encoding="utf-8")
                asked[parent.name, name] = path
        shapes = _shapes(list(asked.values()))
    found = []
    for parent in waiting:
        source = parent.problem.read_text(encoding="utf-8")
        ranks = {name: _ranks(shapes[asked[parent.name, name]]) for name in odd_sizes.candidates(source)}
        accepted = {name: rank is not None and rank == ranks[odd_sizes.NONE] for name, rank in ranks.items()}
        found.append((parent, odd_sizes.wanted(source, accepted)))
    return found


def _ranks(shapes: list[list[int]] | None) -> list[int] | None:
    return None if shapes is None else [len(shape) for shape in shapes]


def _shapes(paths: Sequence[Path]) -> dict[Path, list[list[int]] | None]:
    """Of each reference's outputs on fake tensors; None where it does not run. Raises RuntimeError."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mutation.fake_worker"],
        input="".join(f"{path}\n" for path in paths),
        capture_output=True,
        text=True,
        cwd=PROJECT,
    )
    if done.returncode:
        raise RuntimeError(f"references on fake tensors: {done.returncode}: {done.stderr[-800:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {Path(line["problem"]): line.get("shapes") for line in lines}
