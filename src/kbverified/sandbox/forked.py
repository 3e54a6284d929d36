"""Launchers, and through them workers, forked from a warm process instead of executed afresh.

The judge's side, and what a forked child does first. Who forks is ``kbverified.evaluator``; a judge that it forked has
a connection to it (``use``), and ``spawn`` then asks for a launcher over that. The warm process sees one byte and three
descriptors; the plan goes from the judge to the launcher alone, as it always does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable

from kbverified.sandbox.request import SandboxError

LAUNCHER = b"L"
"""The one message of a judge: fork a launcher with these descriptors as its control, output and channel."""

CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)
"""For recvmsg(): what comes over a socket is no child's by accident."""

_ANSWER_S = 60.0
_FIRST_FREE_FD = 1 << 9  # where descriptors are put aside while 3, 4, ... are filled


class ForkedLauncher:
    """A launcher that is another process's child: known by its pidfd. Waits and kills like a Popen."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self._pidfd < 0:
            return
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("launcher", timeout or 0.0)

    def kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Give the descriptor back. For a launcher that has ended."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Source:
    """A judge's connection to the warm process that forked it. For several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(_ANSWER_S)
        self._lock = threading.Lock()

    def close(self) -> None:
        self._sock.close()

    def fork_launcher(self, control: int, output: int, channel: int) -> ForkedLauncher:
        """A new launcher that has copies of these descriptors. Raises SandboxError where the warm process is gone."""
        try:
            with self._lock:
                socket.send_fds(self._sock, [LAUNCHER], [control, output, channel])
                answer, fds, _, _ = socket.recv_fds(self._sock, 64, 1, CLOSE_ON_EXEC)
        except OSError as error:
            self._sock.close()  # a late answer would be taken for the next request's
            raise SandboxError(
                f"the evaluator does not answer: {error}; run again, or with KBV_EVALUATOR=off"
            ) from None
        if not fds:
            raise SandboxError("the evaluator has ended or cannot fork: run again, or with KBV_EVALUATOR=off")
        return ForkedLauncher(int(answer), fds[0])


_source: Source | None = None


def use(sock: socket.socket | None) -> None:
    """From now on forkable workers of this process are forked by whoever holds the other end. None: by nobody."""
    global _source
    if _source is not None:
        _source.close()
    _source = Source(sock) if sock is not None else None


def source() -> Source | None:
    """Where this process's launchers are forked; None where they are executed."""
    return _source


# --- in a forked child ----------------------------------------------------------------------------------------------


def keep_only(descriptors: list[int]) -> None:
    """Move these to 3, 4, ... and close all others above 2."""
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in descriptors]
    for number, fd in enumerate(aside, start=3):
        os.dup2(fd, number, inheritable=False)
    os.closerange(3 + len(aside), os.sysconf("SC_OPEN_MAX"))


def forget_signals() -> None:
    """What Python sets at its start, instead of what the forking process had set."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def reseed() -> None:
    """Generators that were seeded at import, which every child of the warm process would have alike.

    Python's own is reseeded by the fork. torch's for GPUs do not exist yet.
    """
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy_random is not None:
        numpy_random.seed()
    if torch is not None:
        torch.default_generator.seed()


_cores_at_import: frozenset[int] = frozenset()


def remember_cores() -> None:
    """In the warm process, before it imports anything: how many threads torch takes to be right follows from these."""
    global _cores_at_import
    _cores_at_import = frozenset(os.sched_getaffinity(0))


def fit_threads() -> None:
    """Give torch the number of threads that it would have chosen, had it been imported by this process.

    Its libraries choose when they are loaded: what MKL_NUM_THREADS or OMP_NUM_THREADS says, else one for each core
    that the process may use (MKL: for each physical one).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    had, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    named = [os.environ.get(name, "") for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS")]
    wanted = next((int(word) for word in named if word.isdigit() and int(word) > 0), None)
    if wanted is None:
        physical = had < len(_cores_at_import) and had == _physical(_cores_at_import)
        wanted = _physical(cores) if physical else len(cores)
        if cores == _cores_at_import:
            return
    if wanted != had:
        torch.set_num_threads(wanted)


def _physical(cores: Iterable[int]) -> int:
    """How many physical cores these are, as the kernel tells; each for itself where it does not."""
    found = set()
    for core in cores:
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
                found.add(file.read())
        except OSError:
            found.add(str(core))
    return len(found)


def run_launcher() -> int:
    """Be a launcher: descriptors 0 to 3 are its control, its output twice, and the worker's channel.

    Returns in the worker, when its program has ended; the launcher itself ends here, without taking down the
    interpreter that it got from the warm process.
    """
    from kbverified.sandbox import launcher
    from kbverified.sandbox.confine import ForkedWorker

    os.setsid()
    os.chdir("/")
    try:
        os._exit(launcher.main())
    except ForkedWorker as worker:
        argv, env = worker.argv, worker.env
    except BaseException:  # also SystemExit: nothing may end through the warm process's interpreter
        traceback.print_exc()
        os._exit(1)
    # The frames of the launcher are gone here, and what they held.
    return run_program(argv, env)


def run_program(argv: list[str], env: dict[str, str]) -> int:
    """Run ``python [-P] -m module ...``, ``-c code ...`` or ``script ...`` in this process, as its main module."""
    import runpy

    os.environ.clear()
    os.environ.update(env)
    forget_signals()
    reseed()
    fit_threads()
    words = [word for word in argv[1:] if word != "-P"]  # the warm process has that flag itself
    sys.orig_argv = list(argv)
    if words[0] == "-m":
        sys.argv = [words[1], *words[2:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
    return 0
