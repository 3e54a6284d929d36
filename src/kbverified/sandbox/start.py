"""Start a worker: find the level, run the launcher, hand over the plan."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from kbverified.sandbox import forked, view
from kbverified.sandbox.channel import FD_VARIABLE, Channel
from kbverified.sandbox.confine import CHANNEL_FD
from kbverified.sandbox.plan import Plan, Refused
from kbverified.sandbox.request import (
    LEVEL_OF,
    MECHANISMS,
    Level,
    Mechanism,
    SandboxError,
    SandboxUnavailable,
    SpawnRequest,
)
from kbverified.sandbox.worker import Worker

_LAUNCHER = Path(__file__).with_name("launcher.py")
_START_S = 60.0
_ADVICE = {
    "full": "run as root with CAP_SYS_ADMIN (a privileged container), or ask for level user, none or auto",
    "user": "allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
    "kernel.apparmor_restrict_unprivileged_userns=0) or use a kernel with Landlock; or ask for level none or auto",
    "none": "look at the step that failed: this level needs nothing but a process",
}


def spawn(request: SpawnRequest) -> Worker:
    """Start a worker and return when it executes its own program.

    "auto" takes the best level that can be reached. Raises SandboxUnavailable where a level that was asked for by
    name cannot be reached, SandboxError where the request itself is at fault (a path that does not exist or
    that the worker's uid cannot read; a program that cannot be executed): that never leads to a weaker level.
    """
    seen = view.of(request)
    refusals: list[str] = []
    for mechanism in _ways(request):
        try:
            return _launch(request, mechanism, seen)
        except Refused as refusal:
            told = f"{mechanism}: {refusal.step}: {refusal.text}"
            if not refusal.unavailable:
                raise SandboxError(f"worker {request.name} at level {LEVEL_OF[mechanism]}: {told}") from None
            refusals.append(told)
    advice = _ADVICE.get(request.level, _ADVICE["none"])
    raise SandboxUnavailable(
        f"sandbox level {request.level} cannot be reached for worker {request.name}: {'; '.join(refusals)}. {advice}"
    )


@functools.cache
def reachable_level() -> Level:
    """The best level for a worker of this process, found by starting one that does nothing (cached)."""
    program = next(path for path in ("/bin/true", "/usr/bin/true", sys.executable) if os.path.exists(path))
    with spawn(SpawnRequest(argv=[program, "-c", ""], level="auto", name="probe")) as worker:
        return worker.level


def _ways(request: SpawnRequest) -> list[Mechanism]:
    levels = tuple(MECHANISMS) if request.level == "auto" else (request.level,)
    if not set(levels) <= set(MECHANISMS):
        raise ValueError(f"sandbox level {request.level!r} is none of auto, {', '.join(MECHANISMS)}")
    ways = [mechanism for level in levels for mechanism in MECHANISMS[level]]
    return [mechanism for mechanism in ways if request.mechanism in (None, mechanism)]


def _launch(request: SpawnRequest, mechanism: Mechanism, seen: view.View) -> Worker:
    """Run the launcher for one mechanism. Raises Refused, SandboxError."""
    warm = forked.source() if request.forkable else None
    own_mounts = mechanism in ("root-namespaces", "user-namespaces")
    scratch = None if own_mounts else tempfile.mkdtemp(prefix="kbverified-worker-")
    control, launcher_control = socket.socketpair()
    ours, theirs = socket.socketpair()
    output_read, output_write = os.pipe()
    with contextlib.ExitStack() as on_failure:
        for sock in (control, ours):
            on_failure.callback(sock.close)
        on_failure.callback(os.close, output_read)
        if scratch is not None:
            on_failure.callback(shutil.rmtree, scratch, ignore_errors=True)
        try:
            launcher: subprocess.Popen[bytes] | forked.ForkedLauncher
            if warm is not None:
                launcher = warm.fork_launcher(launcher_control.fileno(), output_write, theirs.fileno())
                on_failure.callback(launcher.close)
            else:
                launcher = _execute_launcher(launcher_control.fileno(), output_write, theirs.fileno())
            on_failure.callback(launcher.wait)
            on_failure.callback(launcher.kill)
            channel_fd = CHANNEL_FD if warm is not None else theirs.fileno()
            plan = _plan(request, mechanism, seen, channel_fd, scratch, warm is not None)
        finally:
            launcher_control.close()
            theirs.close()
            os.close(output_write)
        with contextlib.suppress(BrokenPipeError):
            control.sendall(plan.encode())
        answer = _first_answer(control, output_read)
        if "refused" in answer:
            launcher.wait()
            raise Refused(answer["refused"], answer["text"], answer["unavailable"])
        on_failure.pop_all()
    return Worker(
        mechanism=mechanism,
        pid=answer["started"],
        uid=answer["uid"],
        channel=Channel(ours, max_fds=0),  # buffers are the judge's: a worker has no descriptor to give
        launcher=launcher,
        control=control,
        output_fd=output_read,
        output_limit_bytes=request.limits.output_bytes,
        name=request.name,
        scratch=scratch,
    )


def _execute_launcher(control: int, output: int, channel: int) -> subprocess.Popen[bytes]:
    # -I: no variables, no user's site folder; -S: no site folder at all. The launcher is trusted and stays so.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_LAUNCHER)],
        stdin=control,
        stdout=output,
        stderr=output,
        pass_fds=(channel,),
        # Where the interpreter itself needs it (modules on clusters); a worker gets what env says.
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        cwd="/",
        start_new_session=True,
    )


def _plan(
    request: SpawnRequest, mechanism: Mechanism, seen: view.View, channel_fd: int, scratch: str | None, warm: bool
) -> Plan:
    limits = request.limits
    cores = request.cores
    if cores is None and warm:  # a launcher of this process's own would have them from it
        cores = frozenset(os.sched_getaffinity(0))
    # In a user namespace /proc can only be mounted for a PID namespace of its own.
    pid_namespace = mechanism == "user-namespaces" or (mechanism == "root-namespaces" and request.pid_namespace)
    return Plan(
        mechanism=mechanism,
        argv=list(request.argv),
        env=environment(request, scratch or "/tmp"),
        channel_fd=channel_fd,
        judge_pid=os.getpid(),
        read=seen.read,
        write=seen.write,
        devices=seen.devices,
        links=seen.links,
        cores=sorted(cores) if cores is not None else None,
        pid_namespace=pid_namespace,
        cpu_s=limits.cpu_s,
        file_size_bytes=limits.file_size_bytes,
        processes=limits.processes,
        open_files=limits.open_files,
        core=limits.core,
        address_space_bytes=limits.address_space_bytes,
        temporary_bytes=limits.temporary_bytes,
        forked=warm,
        scratch=scratch,
    )


def environment(request: SpawnRequest, home: str) -> dict[str, str]:
    """The worker's whole environment: nothing of the judge's own is in it."""
    return {
        "HOME": home,
        "TMPDIR": home,
        "USER": "worker",
        "LOGNAME": "worker",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **request.env,
        FD_VARIABLE: str(CHANNEL_FD),
    }


def _first_answer(control: socket.socket, output: int) -> dict:
    """The launcher's first line. Raises SandboxError where it dies or does not answer, with what it printed."""
    line = b""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while not line.endswith(b"\n"):
        part = control.recv(1) if poll.poll(_START_S * 1000) else b""
        if not part:
            os.set_blocking(output, False)
            with contextlib.suppress(BlockingIOError):
                line += os.read(output, 1 << 16)
            raise SandboxError(f"the launcher did not start a worker: {line.decode('utf-8', 'replace')[-2000:]}")
        line += part
    return json.loads(line)
