"""The command with defences switched off, to show that an attack escapes without them.

    python without.py verify,bound stage time-fp32 ...

The judge's process is changed from here, and nothing in the package knows of it. What is a defence in the worker, for
candidates that mean no harm, is switched off there: the worker is then started through this file as well.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
IN_WORKER = "--in-worker"


# --- the judge's ------------------------------------------------------------------------------------------------
def _verify() -> None:
    """No output of a timed launch is held against the reference's."""
    from kbverified.judge import loose  # before anything has taken the function from it

    loose.loose_verdict = lambda *_, **__: {"verdict": "pass", "detail": None}


def _bound() -> None:
    """No claim is held against the judge's own clock."""
    from kbverified.judge.bound import Bound

    Bound.outcome = lambda self: "agreed"  # type: ignore[method-assign]


def _one_by_one() -> None:
    """A batch shows all its inputs before the first launch, and has as many as on a machine with nothing else to do."""
    from kbverified.judge import bound

    run_batch = bound.run_batch
    bound.batch_size = lambda *_: 12

    def show_all(side: Any, drawn: list[Any], reference: Any = None) -> Any:
        for index, inputs in enumerate(drawn):
            side.exchange.write(index, inputs)
        return run_batch(side, drawn, reference)

    bound.run_batch = show_all


# --- the worker's -----------------------------------------------------------------------------------------------
def _join() -> None:
    """A launch is over when the current stream is."""
    import torch

    from kbverified.devices.cuda import CudaDevice

    def time_ms(self: Any, launch: Callable[[], Any]) -> tuple[float, Any]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # noqa: TID251
        start.record()
        result = launch()
        end.record()
        self.synchronize()
        return start.elapsed_time(end), result

    CudaDevice.time_ms = time_ms  # type: ignore[method-assign]


def _persisting() -> None:
    """A flush leaves the lines that the L2 was asked to keep."""
    from kbverified.devices.cuda import CudaDevice

    CudaDevice.forget_persisting = lambda self: None  # type: ignore[method-assign]


JUDGES: dict[str, Callable[[], None]] = {"verify": _verify, "bound": _bound, "one_by_one": _one_by_one}
WORKERS: dict[str, Callable[[], None]] = {"join": _join, "persisting": _persisting}
SWITCHES = JUDGES | WORKERS


def _start_workers_here(names: list[str]) -> None:
    from kbverified.judge import party

    spawn = party.spawn

    def spawn_changed(request: Any) -> Any:
        argv = [sys.executable, "-P", str(HERE / "without.py"), IN_WORKER, ",".join(names)]
        readable = (*request.readable, HERE)
        return spawn(dataclasses.replace(request, argv=argv, readable=readable, forkable=False))

    party.spawn = spawn_changed


def main() -> int:
    if sys.argv[1] == IN_WORKER:
        from kbverified import worker

        for name in sys.argv[2].split(","):
            WORKERS[name]()
        print("a worker without", sys.argv[2])
        return worker.main()
    os.environ["KBV_EVALUATOR"] = "off"  # a judge forked from there would be whole
    names = sys.argv[1].split(",")
    for name in JUDGES:  # in this order
        if name in names:
            JUDGES[name]()
    if in_worker := [name for name in names if name in WORKERS]:
        _start_workers_here(in_worker)
    from kbverified.cli import main as command
    from kbverified.judge import rounds

    rounds.TIMING_UNSTABLE_HALF_WIDTH = dict.fromkeys(rounds.TIMING_UNSTABLE_HALF_WIDTH, math.inf)  # not the question

    return command(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
