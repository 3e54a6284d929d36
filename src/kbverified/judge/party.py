"""One worker as the judge sees it: started, spoken to, and blamed by name when it fails.

A reply is a claim. A worker that dies, hangs or garbles its messages ends in a CandidateFailure with a verdict; for
those that a broken machine could also cause (AMBIGUOUS) the stage then asks a canary.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from kbverified.devices.lost import says_lost
from kbverified.lease import UNTOUCHED_DRIVER
from kbverified.records.base import Dtype, SandboxLevel, Verdict
from kbverified.sandbox import (
    PASSED_ON,
    ChannelClosed,
    ChannelTimeout,
    ChannelViolation,
    Limits,
    SandboxError,
    SpawnRequest,
    Worker,
    import_path,
    nvidia_nodes,
    spawn,
)

PRIVATE_CACHE = Path("/tmp/kbv-cache")
"""Inside a worker that may not write to a build directory: its caches, gone with it."""

# What only a judge can say: nobody accuses himself of it.
_JUDGES_OWN = {"pass", "time_disputed", "unstable"}
FAILURES = frozenset(get_args(Verdict)) - _JUDGES_OWN

AMBIGUOUS = ("crash", "timeout", "out_of_memory")
"""Verdicts that a faulty machine could cause as well: a canary decides."""
_RAISED = ("import_error", "init_error", "runtime_error")
"""Verdicts on an exception, which is the candidate's own unless it says that the device is gone."""


class CandidateFailure(Exception):
    """The candidate failed; ``verdict`` is its failure class."""

    def __init__(self, verdict: Verdict, detail: str):
        super().__init__(f"{verdict}: {detail}")
        self.verdict: Verdict = verdict
        self.detail = detail

    def is_ambiguous(self) -> bool:
        """Whether a faulty machine could have caused it as well."""
        return self.verdict in AMBIGUOUS or (self.verdict in _RAISED and says_lost(self.detail))


class InfrastructureFault(RuntimeError):
    """Something other than the candidate is broken: no record is written, the job fails and is retried."""


@contextlib.contextmanager
def machines_fault(what: str) -> Iterator[None]:
    """Where nothing but trusted code runs, a worker's failure is the machine's: raises InfrastructureFault for it."""
    try:
        yield
    except CandidateFailure as failure:
        raise InfrastructureFault(f"{what}: {failure}") from failure


class NotMeasurable(RuntimeError):
    """There is nothing wrong with candidate and machine, and yet nothing to measure: the stage is skipped, and why."""


class DoesNotFit(NotMeasurable):
    """The problem is too large for this device, whatever else runs there."""


class BaselineUnusable(NotMeasurable):
    """An optional baseline that does not exist for this problem, or would answer another question."""


@dataclass(frozen=True)
class Settings:
    """What a stage was told on its command line."""

    device: str
    sandbox: Literal["auto", "full", "user", "none"]
    dtype: Dtype
    timeout_s: float
    build_root: Path
    build_timeout_s: float = 900.0
    arch: str | None = None
    gate_mode: str = "ieee"
    threads: int | None = None
    timing_budget_s: float = 1.5
    """What the rounds of one timing stage may take; the least number is made in any case."""


@dataclass
class Party:
    """A worker process and the source that it is to run."""

    worker: Worker
    source: Path
    class_name: str
    timeout_s: float
    name: str
    ready: bool = False
    builds: list[dict[str, Any]] = field(default_factory=list)
    flags: dict[str, Any] | None = None
    deadline: float | None = None
    """time.monotonic() at which this worker's whole stage is over, however its limits per answer add up."""
    _posted: str = ""

    @property
    def level(self) -> SandboxLevel:
        return self.worker.level

    def wait_ready(self) -> None:
        """Wait until the worker has imported what it needs. Raises CandidateFailure, though no candidate ran yet."""
        if not self.ready:
            self._receive("import", 60.0 + self.timeout_s)
            self.ready = True

    def post(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message; ``reply`` gives its answer. Raises CandidateFailure."""
        self.wait_ready()
        self._posted = str(message["do"])
        try:
            self.worker.channel.send(message, fds)
        except (ChannelClosed, ChannelTimeout):
            raise self._death(self._posted) from None

    def reply(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The answer to what was posted. Raises CandidateFailure where it names a failure, is none, or is late."""
        reply = self._receive(self._posted, self.timeout_s if timeout_s is None else timeout_s)
        builds = reply.get("builds")
        if isinstance(builds, list):
            self.builds = [build for build in builds if isinstance(build, dict)]
        if "failure" in reply:
            raise CandidateFailure(_known_verdict(reply["failure"]), str(reply.get("detail", ""))[-4000:])
        return reply

    def has_answered(self) -> bool:
        """Whether ``reply`` would find something at once, be it that the worker has died."""
        return self.worker.channel.has_something()

    def ask(self, message: dict[str, Any], fds: tuple[int, ...] = (), timeout_s: float | None = None) -> dict[str, Any]:
        """Post one message and wait for its reply. Raises CandidateFailure."""
        self.post(message, fds)
        return self.reply(timeout_s)

    @contextlib.contextmanager
    def looking_out(self, spin_s: float) -> Iterator[None]:
        """Look for replies without sleeping for so long, at the price of a core."""
        self.worker.channel.spin_s = spin_s
        try:
            yield
        finally:
            self.worker.channel.spin_s = 0.0

    def _receive(self, during: str, limit_s: float) -> dict[str, Any]:
        if self.deadline is not None:
            limit_s = min(limit_s, max(self.deadline - time.monotonic(), 0.0))
        try:
            message, extra = self.worker.channel.receive(limit_s)
        except ChannelTimeout:
            raise CandidateFailure("timeout", f"no answer to {during!r} within {limit_s:.0f} s") from None
        except ChannelViolation as error:
            raise CandidateFailure("protocol_violation", str(error)) from None
        except ChannelClosed:
            raise self._death(during) from None
        for fd in extra:
            os.close(fd)
        return message

    def _death(self, during: str) -> CandidateFailure:
        status = self.worker.wait(5.0)
        if self.worker.flooded:
            return CandidateFailure("output_flood", f"printed more than the limit during {during!r}")
        if status is None:
            return CandidateFailure("crash", f"closed its channel during {during!r}")
        return CandidateFailure("crash", f"the process ended by {status} during {during!r}")

    def close(self) -> None:
        self.worker.close()


def _known_verdict(claim: Any) -> Verdict:
    """A worker may only accuse itself of failures that there are; anything else is no message of ours."""
    return cast(Verdict, claim) if isinstance(claim, str) and claim in FAILURES else "protocol_violation"


def start_process(
    source: Path,
    class_name: str,
    settings: Settings,
    name: str,
    build: Path | None = None,
    writable: bool = False,
    sees_device: bool = True,
) -> Party:
    """Spawn a worker; it imports torch while the judge does the same. Nothing of the candidate runs yet.

    ``build`` is the candidate's build directory; a baseline or canary gets none, and sees nothing of a candidate's.
    A worker that only builds does not see the GPU: another job may be measuring on it.
    Raises InfrastructureFault where no worker can be started.
    """
    readable = [source.absolute()]
    if build is not None and not writable:
        readable.append(build)
    pch = settings.build_root.absolute() / "pch"
    if build is not None and pch.exists():
        readable.append(pch)
    request = SpawnRequest(
        argv=[sys.executable, "-P", "-m", "kbverified.worker"],
        level=settings.sandbox,
        readable=tuple(readable),
        writable=(build,) if build is not None and writable else (),
        env=_environment(settings, build, writable) | ({} if sees_device else {"CUDA_VISIBLE_DEVICES": ""}),
        limits=Limits(),
        devices=tuple(nvidia_nodes()) if settings.device == "cuda" and sees_device else (),
        name=name,
        forkable=True,
    )
    try:
        worker = spawn(request)
    except (OSError, SandboxError) as error:
        raise InfrastructureFault(f"no worker could be started: {error}") from error
    return Party(worker, source.absolute(), class_name, settings.timeout_s, name)


def _environment(settings: Settings, build: Path | None, writable: bool) -> dict[str, str]:
    from kbverified.compilation import toolchain

    tools = toolchain.find(settings.arch)
    cache = build if build is not None and writable else PRIVATE_CACHE
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]),
        "PYTHONPATH": import_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCH_EXTENSIONS_DIR": str(cache / "torch"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "CUDA_CACHE_PATH": str(cache / "nv"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "MAX_JOBS": "2",
        "KBV_DEVICE": settings.device,
        **UNTOUCHED_DRIVER,
        **tools.environment(),
    }
    if build is not None and not writable:
        environment["KBV_SEALED_CACHE"] = str(build)
    for name in PASSED_ON:
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def start_message(
    party: Party, settings: Settings, mode: str, init_inputs: Any, weight_seed: int, gpu_uuid: str | None
) -> dict[str, Any]:
    """What a worker needs to open its device and construct its model."""
    return {
        "do": "start",
        "device": settings.device,
        "mode": mode,
        "dtype": settings.dtype,
        "source": str(party.source),
        "class": party.class_name,
        "init_inputs": init_inputs,
        "weight_seed": weight_seed,
        "build_directory": str(PRIVATE_CACHE / "builds"),
        "build_writable": True,
        "header": None,
        "threads": settings.threads,
        "environment": {"CUDA_VISIBLE_DEVICES": gpu_uuid} if gpu_uuid else {},
    }
