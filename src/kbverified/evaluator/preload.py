"""What the warm process imports before it forks, and that it is fit to be forked from afterwards."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Sequence

from kbverified.keys import EVERY_STAGE
from kbverified.sandbox import forked

STAGES = ("audit-problem", *EVERY_STAGE)

LIBRARIES = (
    "torch",
    "torch._subclasses.fake_tensor",
    "torch.utils.flop_counter",
    # What torch.utils.cpp_extension imports. Itself it is left to the worker: its import reads the environment.
    "setuptools",
    "setuptools.command.build_ext",
)
LIBRARIES_IF_THERE = ("cuda.bindings.driver", "pynvml", "triton", "triton.language")
"""Triton: its compiler and all that a kernel is written with; which driver there is, it asks at the first launch."""

EXECUTED = ("kbverified.worker",)
"""Run as the main module of its process: imported before, there would be two of it."""


def package_modules() -> list[str]:
    """Every module of this package that judge or worker of any stage may import, as source_digest finds them."""
    from kbverified import source_digest

    paths = {path for stage in STAGES for path in source_digest.files(stage) if path.suffix == ".py"}
    names = ["kbverified.cli", "kbverified.evaluator.judge"]
    for path in sorted(paths):
        parts = path.relative_to(source_digest.PACKAGE_ROOT.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in names if name not in EXECUTED]


def preload(libraries: Sequence[str], if_there: Sequence[str] = (), modules: Sequence[str] = ()) -> None:
    """Import, end the threads that imports started, and see that no driver was opened.

    Raises ImportError, RuntimeError where this process is none to fork from.
    """
    before = _open_descriptors()
    forked.remember_cores()
    for name in (*libraries, *modules):
        importlib.import_module(name)
    for name in if_there:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # OpenBLAS starts its threads when numpy is imported. It ends them before a fork, and starts them again in whoever
    # needs them: one fork for nothing, and there is one thread left.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    opened = _open_descriptors().items() - before.items()
    if opened:
        raise RuntimeError(f"imports left open {', '.join(place for _, place in opened)}: a child would share it")
    gc.collect()
    gc.freeze()  # the collector of a child does not touch, and so copy, what it has from here


def _open_descriptors() -> dict[str, str]:
    """What each open descriptor of this process leads to."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found
