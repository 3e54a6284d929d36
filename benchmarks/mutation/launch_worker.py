"""One parent on its problem's own inputs under torch's profiler: the names of all kernels that were launched.

Reads a request from standard input and prints one JSON line, ``{"launched": [...]}``, empty where the profiler sees
nothing (no CUPTI). From the constructor to the second call, which may differ from the first. A process of its own: what
a kernel does to it is nobody else's, and the profiler meets a CUDA that nothing was forked from.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.mutation import screen_worker
from kbverified import problems
from kbverified.protocol import FORWARD_SEED

CALLS = 2


def launched(source: Path, problem: Any, build: Path, device: str) -> list[str]:
    """Names of kernels, sorted, each once. Raises what the candidate raises."""
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(8, device=device).sum().item()  # CUDA is there before the profiler is
    # The CPU's events are asked for as well: without them a profiler that cannot see the GPU refuses to begin.
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        model = screen_worker.model_of(source, problem, build, device)
        for number in range(CALLS):
            torch.manual_seed(10_000 + number)
            drawn = screen_worker.draw(problem, device)
            values = [v.to(device) if isinstance(v, torch.Tensor) else v for v in drawn]
            torch.manual_seed(FORWARD_SEED)
            with torch.no_grad():
                model(*values)
        torch.ones(8, device=device).sum()  # one that we know of: where it is not seen, none is
    # At its end the profiler waits for the whole device.
    return sorted(set(_kernels(seen.events() or [])))


def _kernels(events: Iterable[Any]) -> Iterable[str]:
    for event in events:
        on_device = getattr(event.device_type, "name", str(event.device_type)) != "CPU"
        if on_device and not event.name.startswith(("Memcpy", "Memset")):
            yield event.name


def main() -> int:
    """Exit code 0: a line was printed; a traceback and 1 otherwise."""
    request = json.load(sys.stdin)
    problem = problems.load(Path(request["problem"]))
    names = launched(Path(request["source"]), problem, Path(request["build"]), request.get("device", "cuda"))
    print(json.dumps({"launched": names}), flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
