"""Where a launch's clock starts: on an idle device, behind queued flushes, or behind a wait and a flush. Which repeats
better?

    python -m benchmarks.start_event PROBLEM.py... [--device cuda|cpu] [--processes 6] [--flushes 4] [--json FILE]

Each problem's ``Model`` is timed in all ways, in turns, in as many fresh processes as asked for: the same code in
all, so that what differs between processes is the measurement. They run side by side on as many GPUs as are visible,
one on each. For each problem and variant:

- ms: median over the processes of their medians.
- sd %: standard deviation between processes, of the logarithms of their medians.
- A/A: of processes in pairs, the ratio that is furthest from 1.

Nothing here is judged: it is for problems of one's own, and holds no lease.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from benchmarks.summaries import table, write
from kbverified import lease, protocol

if TYPE_CHECKING:  # torch belongs to the processes that measure
    from kbverified.devices.base import Device
    from kbverified.judge.reference import Reference

VARIANTS = ("idle", "queued", "covered")
"""``queued``: behind --flushes; ``covered``: as in a round, behind TIMING_COVER_MS and TIMING_QUEUED_FLUSHES."""
ROUNDS = 12
_PROCESS_LIMIT_S = 600.0


@dataclass(frozen=True)
class Row:
    """One problem timed in one way."""

    problem: str
    variant: str
    process_ms: tuple[float, ...]
    """Median of each process, in milliseconds."""
    median_ms: float
    sd: float | None
    """Between processes, of log times; None for one process."""
    furthest_ratio: float | None
    """Of processes in pairs; None for one process."""


def row(problem: str, variant: str, process_ms: Sequence[float]) -> Row:
    """What the processes' medians (ms) say of one variant."""
    logs = [math.log(t) for t in process_ms]
    ratios = [a / b for a, b in zip(process_ms[::2], process_ms[1::2], strict=False)]
    return Row(
        problem,
        variant,
        tuple(process_ms),
        statistics.median(process_ms),
        statistics.stdev(logs) if len(logs) > 1 else None,
        max(ratios, key=lambda ratio: abs(math.log(ratio)), default=None),
    )


def rows(found: Sequence[dict[str, dict[str, float]]]) -> list[Row]:
    """From each process's medians by problem and variant."""
    return [
        row(problem, variant, [one[problem][variant] for one in found])
        for problem, variant in itertools.product(found[0], VARIANTS)
    ]


def text(made: Sequence[Row]) -> str:
    """A table, and the median of each variant's standard deviations below it."""
    lines = [
        [
            one.problem,
            one.variant,
            f"{one.median_ms:.4f}",
            "–" if one.sd is None else f"{100 * one.sd:.2f}",
            "–" if one.furthest_ratio is None else f"{one.furthest_ratio:.4f}",
        ]
        for one in made
    ]
    for variant in VARIANTS:
        known = [one.sd for one in made if one.variant == variant and one.sd is not None]
        lines.append(["median", variant, "", f"{100 * statistics.median(known):.2f}" if known else "–", ""])
    return table(["problem", "variant", "ms", "sd %", "A/A"], lines)


# --- one process --------------------------------------------------------------------------------------------


def measure(problems: Sequence[Path], device_kind: str, flushes: int) -> dict[str, dict[str, float]]:
    """Median milliseconds by problem and variant, in this process, turns of all in alternation."""
    import torch

    from kbverified import precision
    from kbverified.devices import open_device, prepare
    from kbverified.judge.reference import Reference

    torch.set_grad_enabled(False)
    prepare(device_kind)
    if device_kind == "cpu":
        torch.set_num_threads(1)
    device = open_device(device_kind)
    precision.set_mode("tf32")
    device.ramp_up()
    return {f"{path.parent.name}/{path.stem}": _variants(device, Reference(path), flushes) for path in problems}


def _variants(device: Device, reference: Reference, flushes: int) -> dict[str, float]:
    """Median milliseconds of one problem by variant."""
    from kbverified import codec

    reference.place(device)
    inputs = reference.draw(protocol.STANDARD_DISTRIBUTION, 0)
    launch = partial(reference.model, *codec.decode(inputs.encoded, inputs.tensors))
    one_ms = min(device.time_cold_ms(launch, 0)[0] for _ in range(3))
    hot = max(1, min(protocol.TIMING_HOT_LAUNCHES_MAX, int(protocol.TIMING_HOT_MS[device.kind] / one_ms)))
    per_launch_ms = one_ms + protocol.TIMING_LAUNCH_OVERHEAD_MS[device.kind]
    repetitions = max(
        1, min(protocol.TIMING_REPETITIONS_MAX, int(protocol.TIMING_TURN_MS[device.kind] / per_launch_ms))
    )
    starts = {
        "idle": (0, 0.0),
        "queued": (flushes, 0.0),
        "covered": (protocol.TIMING_QUEUED_FLUSHES[device.kind], protocol.TIMING_COVER_MS[device.kind]),
    }
    times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for index in range(ROUNDS):
        for variant in VARIANTS if index % 2 else VARIANTS[::-1]:
            for _ in range(hot):
                launch()
            for _ in range(repetitions):
                times[variant].append(device.time_cold_ms(launch, *starts[variant])[0])
    del launch, inputs
    device.release_cached()
    return {variant: statistics.median(times[variant]) for variant in VARIANTS}


# --- many -------------------------------------------------------------------------------------------------------


def run_processes(arguments: argparse.Namespace) -> list[dict[str, dict[str, float]]]:
    """Fresh processes, one at a time on each GPU (on a CPU: one at a time). Raises RuntimeError where one fails."""
    free: Queue[str | None] = Queue()
    gpus: list[str | None] = [gpu.uuid for gpu in lease.visible_gpus()] if arguments.device == "cuda" else [None]
    if not gpus:
        raise RuntimeError("no GPU is visible; --device cpu rehearses")
    for gpu in gpus:
        free.put(gpu)
    command = [sys.executable, "-m", "benchmarks.start_event", *map(str, arguments.problems), "--in-process"]
    command += ["--device", arguments.device, "--flushes", str(arguments.flushes)]

    def one(_: int) -> dict[str, dict[str, float]]:
        gpu = free.get()
        try:
            environment = os.environ | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_PROCESS_LIMIT_S, check=False
            )
        finally:
            free.put(gpu)
        if done.returncode != 0:
            raise RuntimeError(f"a process ended with {done.returncode}: {done.stderr[-2000:]}")
        found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
        return found

    with ThreadPoolExecutor(len(gpus)) as pool:
        return list(pool.map(one, range(arguments.processes)))


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 where a process could not measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=Path, nargs="+", metavar="PROBLEM.py")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--flushes", type=int, default=4, help="flushes queued before the clock starts")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    if arguments.in_process:
        print(json.dumps(measure(arguments.problems, arguments.device, arguments.flushes)))
        return 0
    try:
        found = run_processes(arguments)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"start_event: {error}", file=sys.stderr)
        return 2
    made = rows(found)
    if arguments.json:
        write(arguments.json, {"flushes": arguments.flushes, "rows": made})
    print(text(made))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
