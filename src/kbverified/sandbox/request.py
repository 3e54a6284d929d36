"""What is asked of the sandbox, and the ways in which it can refuse."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kbverified.protocol import WORKER_OUTPUT_LIMIT_BYTES

Level = Literal["full", "user", "none"]
Mechanism = Literal["root-namespaces", "user-namespaces", "landlock", "bare"]

MECHANISMS: dict[str, tuple[Mechanism, ...]] = {
    "full": ("root-namespaces",),
    "user": ("user-namespaces", "landlock"),
    "none": ("bare",),
}
"""How each level can be reached, best first."""

LEVEL_OF: dict[Mechanism, Level] = {
    "root-namespaces": "full",
    "user-namespaces": "user",
    "landlock": "user",
    "bare": "none",
}


class SandboxError(RuntimeError):
    """A worker could not be started or ended. The message names the step, the value and what to do."""


class SandboxUnavailable(SandboxError):
    """A level that was asked for by name cannot be reached on this machine."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of a worker. Each holds per process, except ``processes``, ``output_bytes``, ``temporary_bytes``.

    None leaves a limit as the judge has it.
    """

    cpu_s: int | None = 1200
    """CPU seconds: SIGXCPU at the limit, SIGKILL five seconds later."""
    file_size_bytes: int | None = 8 << 30
    """Longest file that may be written."""
    processes: int | None = field(default_factory=lambda: max(1024, 16 * (os.cpu_count() or 1)))
    """Processes and threads of the whole family; many libraries start a thread for each core.

    Not enforced by the kernel for a worker that runs as root.
    """
    open_files: int | None = 4096
    core: int = 0
    """Size of core files in bytes."""
    address_space_bytes: int | None = None
    """None where CUDA is used: it reserves far more than it touches."""
    output_bytes: int = WORKER_OUTPUT_LIMIT_BYTES
    """What the family may print before it is killed."""
    temporary_bytes: int = 4 << 30
    """Size of the private /tmp, in memory: at most a quarter of the machine's. /dev/shm gets a quarter of it.

    Only where the worker has mounts of its own.
    """


@dataclass(frozen=True)
class SpawnRequest:
    """One worker to start.

    ``argv[0]`` is an absolute path. ``readable`` and ``writable`` come on top of what every worker sees (system
    folders, the interpreter, this package: ``view.py``); each exists. What is writable is given to the worker's
    own uid at level full. ``env`` is the whole environment besides HOME, TMPDIR, USER, LOGNAME, LANG, PATH.
    """

    argv: list[str]
    level: Literal["auto", "full", "user", "none"]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    devices: tuple[str, ...] = ()
    """Device nodes for reading and writing: /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm, ..."""
    cores: frozenset[int] | None = None
    """CPU affinity at the start. None: as the judge."""
    name: str = "worker"
    pid_namespace: bool = True
    """Level full only: a PID namespace of its own. Without one the family is hidden, and killed, by its uid."""
    forkable: bool = False
    """``argv`` is a Python program (``python -P -m module`` or ``python script``) that may as well be forked from a
    warm process, where this judge has one: see forked.py."""
    mechanism: Mechanism | None = None
    """Only this way of reaching the level: for tests and for diagnosis."""


@dataclass(frozen=True)
class ExitStatus:
    """How a worker's first process ended: an exit code or the number of the signal, never both."""

    code: int | None
    signal: int | None
    cpu_s: float | None = None
    """CPU seconds of the whole family, as far as its processes were waited for. None: unknown."""
    max_rss_bytes: int | None = None
    """Largest resident set of any process of the family. None: unknown."""

    @property
    def ok(self) -> bool:
        return self.code == 0

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal}"
