"""Which kernels does each parent launch? Asked of the GPU once, before there is a list of mutants. Torch-free.

Kept in ``reached.json``: by parent the names as the profiler gives them, or null and why. Where it gives none, nothing
is known, and no place of that parent is left out; the report says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.mutation import running, screening
from benchmarks.mutation.parents import PROJECT, Parent, file_sha256
from benchmarks.mutation.running import Kernel, Stages, Work
from kbverified.records.files import write_text

LIMIT_S = 120.0
TRIES = 2
"""A parent may meet a full GPU once. It passed the gate: what is known of it does not say that it fails."""


def read(work: Work) -> dict[str, dict[str, Any]]:
    """By parent: ``launched``, ``why_null``, sha256 of ``source`` and ``problem``. Nothing where nothing was asked."""
    return json.loads(work.reached.read_text(encoding="utf-8")) if work.reached.is_file() else {}


def record(work: Work, stages: Stages, found: Sequence[Parent]) -> bool:
    """Write ``reached.json`` for every parent that is not in it. False: the time was over, and some are not.

    Parents whose build is not there are compiled. Raises RuntimeError, OSError.
    """
    known = read(work)
    waiting = [parent for parent in found if not _is_known(known, parent)]
    print(f"reach: {len(found) - len(waiting)} of {len(found)} are known", flush=True)
    if not waiting:
        return True
    kernels = [running.honest(work, parent) for parent in waiting]
    stages.compile(kernels, builds=lambda kernel: True)
    gpus = screening.gpus(stages.device)

    def one(numbered: tuple[int, Kernel]) -> tuple[Parent, dict[str, Any]] | None:
        number, kernel = numbered
        said: dict[str, Any] | None = None
        for turn in range(TRIES):
            if time.monotonic() > stages.until_s:
                return None
            said = _ask(work, kernel, gpus[(number + turn) % len(gpus)])
            if said["launched"] is not None:
                break
        assert said is not None
        facts = {"source": file_sha256(kernel.parent.path), "problem": file_sha256(kernel.parent.problem)}
        return kernel.parent, {**said, **facts}

    with ThreadPoolExecutor(screening.at_once(stages.device, stages.jobs)) as pool:
        for answer in pool.map(one, enumerate(kernels)):
            if answer is not None:
                parent, line = answer
                known[parent.name] = line
                write_text(work.reached, json.dumps(known, indent=1, sort_keys=True))
                print(f"reach: {parent.name}: {line['why_null'] or len(line['launched'])}", flush=True)
    return all(_is_known(known, parent) for parent in found)


def of(work: Work, found: Iterable[Parent]) -> Mapping[str, list[str] | None]:
    """What each parent launches. Raises ValueError where one was not asked."""
    known, launched = read(work), {}
    for parent in found:
        if not _is_known(known, parent):
            raise ValueError(f"{work.reached}: {parent.name} is not in it, or in another version: run the step reach")
        launched[parent.name] = known[parent.name]["launched"]
    return launched


def _is_known(known: Mapping[str, Mapping[str, Any]], parent: Parent) -> bool:
    line = known.get(parent.name, {})
    return (line.get("source"), line.get("problem")) == (file_sha256(parent.path), file_sha256(parent.problem))


def _ask(work: Work, kernel: Kernel, gpu: str | None) -> dict[str, Any]:
    compiled = running.compiled(work, kernel)
    if compiled is None or compiled.verdict != "pass":
        return {"launched": None, "why_null": "it has no build"}
    request = {
        "source": str(work.source(kernel.name)),
        "build": str(compiled.build_directory),
        "problem": str(kernel.parent.problem),
    }
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu is not None else {})}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.mutation.launch_worker"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            cwd=PROJECT,
            env=environment,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"launched": None, "why_null": f"no answer within {LIMIT_S:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"launched"')]
    if done.returncode or not lines:
        return {"launched": None, "why_null": f"exit {done.returncode}: {done.stderr.strip()[-200:]}"}
    launched = json.loads(lines[-1])["launched"]
    why_null = None if launched else "the profiler saw no kernel, not even ours"
    return {"launched": launched or None, "why_null": why_null}
