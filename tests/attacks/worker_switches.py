"""Defences in the worker, for candidates that mean no harm, each with a function that switches it off there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


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


def _held() -> None:
    """Other streams work while the current one is still covered."""
    from kbverified.devices.cuda import CudaDevice

    CudaDevice.hold_streams = lambda self: None  # type: ignore[method-assign]


def _persisting() -> None:
    """A flush leaves the lines that the L2 was asked to keep."""
    from kbverified.devices.cuda import CudaDevice

    CudaDevice.forget_persisting = lambda self: None  # type: ignore[method-assign]


def _flush() -> None:
    """What is written to flush the cache lies on the default device."""
    import torch

    from kbverified.devices.cpu import _FLUSH_BYTES, CpuDevice

    def flush_cache(self: Any) -> None:
        if self._flush is None:
            self._flush = torch.zeros(_FLUSH_BYTES, dtype=torch.uint8)
        self._flush.add_(1)

    CpuDevice.flush_cache = flush_cache  # type: ignore[method-assign]


def _kind() -> None:
    """An output is taken for what it is meant to be."""
    from kbverified import layout

    layout.mismatch = lambda *_: None  # type: ignore[assignment]


def _aliases() -> None:
    """An output may be the input."""
    from kbverified import layout

    layout.aliases = lambda *_: False  # type: ignore[assignment]


def _called() -> None:
    """``forward`` is judged, and nobody looks at what a call of the model does."""
    from kbverified.worker import Bootstrap

    Bootstrap._launch = lambda self, arguments: self.model.forward(*arguments)  # type: ignore[method-assign]


def _strides() -> None:
    """An output is copied as its bytes lie in memory."""
    from kbverified import layout

    def copy_bytes(targets: list[Any], sources: list[Any]) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.view(-1).copy_(source.as_strided((source.numel(),), (1,)))

    layout.copy_into = copy_bytes


def _flags() -> None:
    """The precision flags are those that were set before the candidate was loaded."""
    from kbverified.worker import Bootstrap

    start = Bootstrap.do_start

    def remember(self: Any, message: Any, fds: Any) -> Any:
        reply = start(self, message, fds)
        self.before = reply["flags"]
        return reply

    Bootstrap.do_start = remember  # type: ignore[method-assign]
    Bootstrap.do_flags = lambda self, *_: {"flags": self.before}  # type: ignore[method-assign]


def _one_process() -> None:
    """The reference is constructed and run, and the comparison made, where the candidate runs: after its source was
    loaded, and before its forward."""
    import torch

    from kbverified import problems
    from kbverified.worker import Bootstrap

    construct = Bootstrap._construct
    Bootstrap.reference = None  # type: ignore[attr-defined]

    def construct_both(self: Any, message: Any) -> Any:
        model = construct(self, message)
        if message["class"] == "ModelNew":
            problem = problems.load(Path(os.environ["KBV_ATTACKED_PROBLEM"]))
            torch.manual_seed(message["weight_seed"])
            sys.modules["__main__"].Model = problem.Model  # type: ignore[attr-defined]
            self.reference = problem.Model(*problem.get_init_inputs())
        return model

    def do_forward(self: Any, message: Any, fds: Any) -> dict[str, Any]:
        if self.reference is None:  # a canary's
            return forward(self, message, fds)
        arguments = self._arguments()
        self.reference.to(self.device.torch_device)
        torch.manual_seed(message["forward_seed"])
        expected = self.reference(*arguments)
        torch.manual_seed(message["forward_seed"])
        result = self._guard("runtime_error", lambda: self.model(*arguments))
        return {"ok": True, "allclose": bool(result.allclose(expected, rtol=1e-3, atol=1e-3))}

    forward = Bootstrap.do_forward
    Bootstrap._construct = construct_both  # type: ignore[method-assign]
    Bootstrap.do_forward = do_forward  # type: ignore[method-assign]


WORKERS: dict[str, Callable[[], None]] = {
    "join": _join,
    "held": _held,
    "persisting": _persisting,
    "flush": _flush,
    "kind": _kind,
    "aliases": _aliases,
    "called": _called,
    "strides": _strides,
    "flags": _flags,
    "one_process": _one_process,
}
