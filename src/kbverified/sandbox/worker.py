"""A worker as the judge holds it: how it ends, what it printed, and the channel to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

from kbverified.sandbox import family
from kbverified.sandbox.channel import Channel
from kbverified.sandbox.forked import ForkedLauncher
from kbverified.sandbox.output import OutputDrain
from kbverified.sandbox.request import LEVEL_OF, ExitStatus, Level, Mechanism, SandboxError

_KILL_S = 20.0  # the launcher itself gives up after 15 s
_DRAIN_S = 5.0


class Worker:
    """One running worker and its family. A context manager, which kills at its end.

    ``level`` and ``mechanism`` are what was reached; ``pid`` is the first process as the judge sees it; ``uid`` is
    the uid it runs as. Methods may be called from any thread; the channel is for one thread.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        pid: int,
        uid: int,
        channel: Channel,
        launcher: subprocess.Popen[bytes] | ForkedLauncher,
        control: socket.socket,
        output_fd: int,
        output_limit_bytes: int,
        name: str,
        scratch: str | None = None,
    ) -> None:
        self.level: Level = LEVEL_OF[mechanism]
        self.mechanism = mechanism
        self.pid = pid
        self.uid = uid
        self.name = name
        self.channel = channel
        self._launcher = launcher
        self._scratch = scratch
        self._control = control
        self._status: ExitStatus | None = None
        self._stuck = 0
        self._answer = b""
        self._lock = threading.RLock()
        self._drain = OutputDrain(output_fd, output_limit_bytes, self._end_flood, name)

    def poll(self) -> ExitStatus | None:
        """How it ended, or None while it runs. Once it is told, the whole family is dead and its output counted."""
        return self.wait(0)

    def wait(self, timeout_s: float | None = None) -> ExitStatus | None:
        """Like poll(), but wait. None where it still runs after ``timeout_s``; without one, wait for ever."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._status is None:
            remaining_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            # Several threads may wait here; the one that gets the lock reads.
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            if not poll.poll(None if remaining_s is None else remaining_s * 1000):
                return self._status
            with self._lock:
                self._read_answer()
        return self._status

    @property
    def flooded(self) -> bool:
        """It printed more than its limit, and was killed for it."""
        return self._drain.flooded

    @property
    def output_bytes(self) -> int:
        return self._drain.total_bytes

    def output_tail(self) -> str:
        """The end of what the family printed, at most WORKER_OUTPUT_KEPT_BYTES of it."""
        return self._drain.tail()

    def kill(self) -> ExitStatus:
        """Kill the whole family and wait for its end. Of no effect where it has ended.

        Raises SandboxError where processes are left that cannot be killed (they hang in the kernel).
        """
        self._request_end()
        if self.wait(_KILL_S) is None:
            with self._lock:
                self._kill_without_launcher()
        if self._stuck:
            raise SandboxError(
                f"worker {self.name} (pid {self.pid}): {self._stuck} processes hang in the kernel and cannot be "
                "killed; the device or a file system is not answering"
            )
        assert self._status is not None
        return self._status

    def _request_end(self) -> None:
        try:
            self._control.send(b"end\n", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:  # it has ended already
            pass

    def _end_flood(self) -> None:
        """From the drain's thread, which reads nothing in the meantime: the writer stands still until it is dead."""
        self._request_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._launcher.wait(_KILL_S)

    def _read_answer(self) -> None:
        """Take in the launcher's last line, if it is there. With the lock."""
        if self._status is not None:
            return
        try:
            part = self._control.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._answer += part
        if self._answer.endswith(b"\n"):
            answer = json.loads(self._answer)
            self._stuck = answer["stuck"]
            ended = answer["ended"]
            self._finish(ended, answer["cpu_s"], answer["max_rss_bytes"])
        elif not part:
            # The launcher is dead without a word: at level none a worker can do that. It took the worker with it.
            self._kill_without_launcher()

    def _kill_without_launcher(self) -> None:
        """The launcher does not answer or is dead. Its death kills the worker and its namespace; help with the rest."""
        self._launcher.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.uid != os.getuid():
            family.kill_seen_of_uid(self.uid)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._finish(None, None, None)

    def _finish(self, code: int | None, cpu_s: float | None, max_rss_bytes: int | None) -> None:
        if not isinstance(self._launcher, ForkedLauncher):  # that is another process's to wait for
            self._launcher.wait()
        self._drain.join(_DRAIN_S)
        if code is None:  # nobody reaped it: it was killed
            code = -signal.SIGKILL
        self._status = ExitStatus(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            cpu_s=cpu_s,
            max_rss_bytes=max_rss_bytes,
        )

    def close(self) -> None:
        """Kill, and close the channel and the socket to the launcher."""
        try:
            self.kill()
        finally:
            self.channel.close()
            self._control.close()
            if isinstance(self._launcher, ForkedLauncher):
                self._launcher.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Worker {self.name} pid {self.pid} level {self.level} ({self.mechanism}): {self._status or 'runs'}>"
