"""Measure what a device can do at best: memory copied, read and written, and square matrix products.

One job, once per kind of device, on an otherwise idle one: about two seconds. The device's own clock, the cache flushed
before each launch as before a timed one, every repetition kept. Matrices hold values of [0, 1), as the problems' inputs
do: others draw more power and lower the clock.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbverified.digits import significant
from kbverified.protocol import (
    CEILING_BUDGET_S,
    CEILING_BUFFER_BYTES,
    CEILING_MATMUL_SIZES,
    CEILING_REPETITIONS,
    CEILING_WARMUPS,
)
from kbverified.records.ceilings import CeilingRun, Ceilings


def add_parser(subparsers: Any) -> None:
    """Add ``ceilings`` to the commands of the CLI."""
    parser = subparsers.add_parser("ceilings", help="measure what this device can do at best, for the roofline")
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--out", type=Path, required=True, help="results/ceilings/{device}.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure and write the record. Raises NoDevice without a device, OSError, RuntimeError where it cannot be used."""
    from kbverified import lease
    from kbverified.records.files import write
    from kbverified.stages import Clock, lease_times

    lease.require(arguments.device)
    lease.leave_driver_untouched()
    from kbverified.devices import open_device, prepare

    clock = Clock()
    prepare(arguments.device)  # before the lease, so that nobody waits for these imports
    with lease.acquire(arguments.device, waiting=print) as held:
        if held.gpu is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = held.gpu.uuid
        device = open_device(arguments.device, held.gpu)
        fields = measure(device)
        info = device.info()
    provenance = clock.provenance("ceilings", None, device=info, **lease_times(held))
    record = Ceilings(provenance=provenance, **fields)
    write(arguments.out, record)
    for one in record.runs:
        print(f"{one.what} {one.mode or one.dtype} {one.size}: {one.best_per_s():.4g} per second")
    return 0


def measure(device: Any) -> dict[str, Any]:
    """Fields of the record. ``device``: a devices.base.Device that is this process's alone."""
    import torch

    torch.set_grad_enabled(False)
    if device.kind == "cpu":  # a kernel may use every core, whatever the judge would give it
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    ramp_s = device.ramp_up()
    runs = _memory(device)
    device.release_cached()
    runs += _products(device)
    return {
        "cache_bytes": device.cache_bytes(),
        "ramp_s": ramp_s,
        "threads": torch.get_num_threads() if device.kind == "cpu" else None,
        "runs": tuple(runs),
    }


def _memory(device: Any) -> list[CeilingRun]:
    """Copy, scale, read and write a buffer that no cache holds: of what is free, an eighth at most."""
    import torch

    size = min(CEILING_BUFFER_BYTES[device.kind], device.free_bytes() // 8)
    source = torch.rand(size // 4, device=device.torch_device)
    target = torch.empty_like(source)
    work: list[tuple[Any, int, Callable[[], Any]]] = [
        ("copy", 2, lambda: target.copy_(source)),  # the driver's own
        ("scale", 2, lambda: torch.mul(source, 2.0, out=target)),  # a kernel's
        ("read", 1, lambda: source.sum()),
        ("write", 1, lambda: target.zero_()),
    ]
    nbytes = source.numel() * source.element_size()
    return [
        CeilingRun(what=what, size=nbytes, work=times * nbytes, times_ms=_repeat(device, launch))
        for what, times, launch in work
    ]


def _products(device: Any) -> list[CeilingRun]:
    """Square products in fp32 under ``ieee`` and, on a GPU, ``tf32``, and in bf16."""
    import torch

    from kbverified import precision

    runs = []
    for size in CEILING_MATMUL_SIZES[device.kind]:
        a, b = (torch.rand(size, size, device=device.torch_device) for _ in range(2))
        out = torch.empty_like(a)
        for mode in ("ieee", "tf32") if device.kind == "cuda" else ("ieee",):
            precision.set_mode(mode)
            runs.append(_product(device, a, b, out, mode, "fp32"))
        a, b, out = (t.bfloat16() for t in (a, b, out))
        runs.append(_product(device, a, b, out, None, "bf16"))
        device.synchronize()
    return runs


def _product(device: Any, a: Any, b: Any, out: Any, mode: Any, dtype: Any) -> CeilingRun:
    import torch

    size = a.shape[0]
    times_ms = _repeat(device, lambda: torch.mm(a, b, out=out))
    return CeilingRun(what="matmul", mode=mode, dtype=dtype, size=size, work=2 * size**3, times_ms=times_ms)


def _repeat(device: Any, launch: Callable[[], Any]) -> tuple[float, ...]:
    """Milliseconds of each repetition after the warm-up; at least three, no new one after the budget."""
    for _ in range(CEILING_WARMUPS):
        launch()
    device.synchronize()
    times: list[float] = []
    start = time.monotonic()
    while len(times) < CEILING_REPETITIONS and (len(times) < 3 or time.monotonic() - start < CEILING_BUDGET_S):
        device.flush_cache()
        elapsed_ms, _ = device.time_ms(launch)
        times.append(significant(elapsed_ms))
    return tuple(times)
