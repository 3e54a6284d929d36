"""One worker as the judge sees it: started, spoken to, and blamed by name when it fails.

A reply is a claim. A worker that dies, hangs or garbles its messages ends in a CandidateFailure with a verdict; for
the two that a broken machine could also cause (crash, timeout) the stage then asks a canary.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbverified.records import SandboxLevel
from kbverified.sandbox import (
    ChannelClosed,
    ChannelTimeout,
    ChannelViolation,
    Limits,
    SpawnRequest,
    Worker,
    spawn,
)

AMBIGUOUS = ("crash", "timeout", "out_of_memory")
"""Verdicts that a faulty machine could cause as well: a canary decides."""


class CandidateFailure(Exception):
    """The candidate failed; ``verdict`` is its failure class."""

    def __init__(self, verdict: str, detail: str):
        super().__init__(f"{verdict}: {detail}")
        self.verdict = verdict
        self.detail = detail


class InfrastructureFault(RuntimeError):
    """Something other than the candidate is broken: no record is written, the job fails and is retried."""


@dataclass(frozen=True)
class Settings:
    """What a stage was told on its command line."""

    device: str
    sandbox: str
    dtype: str
    timeout_s: float
    build_root: Path
    build_timeout_s: float = 900.0
    arch: str | None = None
    gate_mode: str = "ieee"
    threads: int | None = None


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

    @property
    def level(self) -> SandboxLevel:
        return self.worker.level

    def ask(self, message: dict[str, Any], fds: tuple[int, ...] = (), timeout_s: float | None = None) -> dict[str, Any]:
        """Send one message and wait for its reply.

        Raises CandidateFailure where the reply names a failure, is none, or does not come.
        """
        limit = self.timeout_s if timeout_s is None else timeout_s
        try:
            if not self.ready:
                self.worker.channel.receive(60.0 + limit)
                self.ready = True
            self.worker.channel.send(message, fds)
            reply, extra = self.worker.channel.receive(limit)
        except ChannelTimeout:
            raise CandidateFailure("timeout", f"no answer to {message['do']!r} within {limit:.0f} s") from None
        except ChannelViolation as error:
            raise CandidateFailure("protocol_violation", str(error)) from None
        except (ChannelClosed, BrokenPipeError, ConnectionResetError):
            raise self._death(message["do"]) from None
        for fd in extra:
            os.close(fd)
        builds = reply.get("builds")
        if isinstance(builds, list):
            self.builds = [build for build in builds if isinstance(build, dict)]
        if "failure" in reply:
            raise CandidateFailure(str(reply["failure"]), str(reply.get("detail", ""))[-4000:])
        return reply

    def _death(self, during: str) -> CandidateFailure:
        status = self.worker.wait(5.0)
        if self.worker.flooded:
            return CandidateFailure("output_flood", f"printed more than the limit during {during!r}")
        if status is None:
            return CandidateFailure("crash", f"closed its channel during {during!r}")
        how = f"signal {status.signal}" if status.signal else f"exit code {status.code}"
        return CandidateFailure("crash", f"the process ended by {how} during {during!r}")

    def close(self) -> None:
        self.worker.kill()


def start_process(source: Path, class_name: str, settings: Settings, build: Path, writable: bool, name: str) -> Party:
    """Spawn a worker; it imports torch while the judge does the same. Nothing of the candidate runs yet.

    Raises InfrastructureFault where no worker can be started.
    """
    readable = [source.absolute()]
    if not writable and build.exists():
        readable.append(build)
    pch = settings.build_root.absolute() / "pch"
    if pch.exists():
        readable.append(pch)
    request = SpawnRequest(
        argv=[sys.executable, "-P", "-m", "kbverified.worker"],
        level=settings.sandbox,
        readable=tuple(readable),
        writable=(build,) if writable else (),
        env=_environment(settings, build, writable),
        limits=Limits(),
        devices=device_nodes() if settings.device == "cuda" else (),
        name=name,
    )
    try:
        worker = spawn(request)
    except OSError as error:
        raise InfrastructureFault(f"no worker could be started: {error}") from error
    return Party(worker, source.absolute(), class_name, settings.timeout_s, name)


def device_nodes() -> tuple[str, ...]:
    """Device files of the NVIDIA driver that are there."""
    names = [p for p in Path("/dev").glob("nvidia*")]
    found = [str(p) for p in names if not p.is_dir()]
    found += [str(p) for folder in names if folder.is_dir() for p in folder.iterdir()]
    return tuple(sorted(found))


def _environment(settings: Settings, build: Path, writable: bool) -> dict[str, str]:
    from kbverified.compilation import toolchain

    tools = toolchain.find(settings.arch)
    cache = build if writable else Path("/tmp/kbv-cache")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and Path(path).is_dir()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCH_EXTENSIONS_DIR": str(cache / "torch"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "CUDA_CACHE_PATH": str(cache / "nv"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "MAX_JOBS": "2",
        **tools.environment(),
    }
    if not writable:
        environment["KBV_SEALED_CACHE"] = str(build)
    for name in ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NVIDIA_VISIBLE_DEVICES"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def start_model(
    party: Party,
    settings: Settings,
    mode: str,
    init_inputs: Any,
    build: Path,
    writable: bool,
    weight_seed: int,
    gpu_uuid: str | None,
    digests: bool = False,
    may_build: bool = False,
) -> dict[str, Any]:
    """Tell a worker to open its device and construct its model. Raises CandidateFailure."""
    message = {
        "do": "start",
        "device": settings.device,
        "mode": mode,
        "dtype": settings.dtype,
        "source": str(party.source),
        "class": party.class_name,
        "init_inputs": init_inputs,
        "weight_seed": weight_seed,
        "build_directory": str(build),
        "build_writable": writable,
        "header": None,
        "threads": settings.threads,
        "digests": digests,
        "environment": {"CUDA_VISIBLE_DEVICES": gpu_uuid} if gpu_uuid else {},
    }
    reply = party.ask(message, timeout_s=settings.build_timeout_s if may_build else None)
    party.flags = reply.get("flags") if isinstance(reply.get("flags"), dict) else None
    return reply
