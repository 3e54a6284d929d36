"""The warm process: ``python -P -m kbverified.evaluator.server DIGEST``, with its listening socket as descriptor 0.

It imports torch and everything a judge or a worker needs, and then only forks: a judge for each client that connects, a
launcher (and through it a worker) for each that a judge asks for. It reads no request, so that nothing of one candidate
is in its memory when the next is served: a client's request is read by the forked judge, a worker's plan by the forked
launcher. It has one thread, no tensor and no CUDA: every fork asserts the first, from which the others follow.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kbverified.sandbox import forked

Role = Literal["judge", "launcher"]

LOCK_NAME = "start.lock"
"""In the evaluators' folder: held by a client that starts one, and by one that ends."""

IDLE_VARIABLE = "KBV_EVALUATOR_IDLE_S"
IDLE_S = 30.0
"""How long it waits for another client when the last one has gone."""

_OTHER_DESCRIPTORS = 32
"""Of this process: standard ones, listener, wake-up pipe, and what a single request takes for a moment."""

_POLL_HANGUP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


@dataclass
class Judge:
    """A judge that runs, and what it is known by."""

    pid: int
    client: socket.socket | None
    """Whom it serves. None: nobody, as in the tests of the sandbox, or it was killed because that client has gone."""
    line: socket.socket | None
    """Where it asks for launchers. None: it has closed its end."""


@dataclass
class Server:
    """The loop. ``run`` returns in every forked child, with what that is to be; in the warm process at its end."""

    listener: socket.socket | None
    idle_s: float = IDLE_S
    judges: list[Judge] = field(default_factory=list)
    judges_at_most: int = field(default_factory=lambda: judges_that_fit(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    """Further clients wait to be accepted: without a descriptor left this process, and all its judges, would end."""

    def run(self) -> Role | None:
        wake = _wake_on_children()
        while self.judges or not self._idle():
            role = self._serve_once(wake)
            if role is not None:
                return role
        return None

    def _serve_once(self, wake: int) -> Role | None:
        """Wait for something to happen and answer it."""
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        if self.listener is not None and len(self.judges) < self.judges_at_most:
            poll.register(self.listener, select.POLLIN)
        clients = {judge.client.fileno(): judge for judge in self.judges if judge.client is not None}
        lines = {judge.line.fileno(): judge for judge in self.judges if judge.line is not None}
        for fd in clients:
            poll.register(fd, _POLL_HANGUP)
        for fd in lines:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll():
            if fd == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 512)
            elif fd in clients:
                self._on_hangup(clients[fd])
            elif fd in lines:
                role = self._on_line(lines[fd])
                if role is not None:
                    return role
            elif self.listener is not None:
                role = self._on_client()
                if role is not None:
                    return role
        self._reap()
        return None

    def _on_client(self) -> Role | None:
        """Fork a judge for a client of this very user."""
        assert self.listener is not None
        try:
            client, _ = self.listener.accept()
        except BlockingIOError:
            return None
        if peer_uid(client) != os.geteuid():
            client.close()
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = fork()
        except OSError:  # too many processes: the client sees its connection close, and does without
            for sock in (client, ours, theirs):
                sock.close()
            return None
        if pid == 0:
            self._let_go(ours)
            forked.keep_only([client.detach(), theirs.detach()])
            return "judge"
        theirs.close()
        self.judges.append(Judge(pid, client, ours))
        return None

    def _on_hangup(self, judge: Judge) -> None:
        """The client has gone: so do its judge, and with that its workers."""
        assert judge.client is not None
        _kill(judge.pid)
        judge.client.close()
        judge.client = None

    def _on_line(self, judge: Judge) -> Role | None:
        """Fork a launcher for a judge, and tell it the pid and a pidfd."""
        assert judge.line is not None
        try:
            message, fds, _, _ = socket.recv_fds(judge.line, 1, 3, forked.CLOSE_ON_EXEC)
        except ConnectionError:
            message, fds = b"", []
        if message != forked.LAUNCHER or len(fds) != 3:  # its end, or nothing that a judge of ours would say
            _close(fds)
            judge.line.close()
            judge.line = None
            if self.listener is None:
                self.judges.remove(judge)
            return None
        try:
            pid = fork()
        except OSError:
            with contextlib.suppress(OSError):
                judge.line.send(b"0")  # without a pidfd: the judge takes it for a refusal
            _close(fds)
            return None
        if pid == 0:
            self._let_go()
            control, output, channel = fds
            os.dup2(control, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            forked.keep_only([channel])
            return "launcher"
        pidfd = os.pidfd_open(pid)
        with contextlib.suppress(OSError):  # the judge has just died
            socket.send_fds(judge.line, [str(pid).encode()], [pidfd])
        _close([*fds, pidfd])
        return None

    def _reap(self) -> None:
        """Collect every child that has ended; a judge's connections end with it, and so its client learns of it."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for judge in [judge for judge in self.judges if judge.pid == pid]:
                self.judges.remove(judge)
                for sock in (judge.line, judge.client):
                    if sock is not None:
                        sock.close()

    def _idle(self) -> bool:
        """Nobody is served: whether to end. A client that has connected meanwhile is served first."""
        if self.listener is None:
            return True
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        if poll.poll(self.idle_s * 1000):
            return False
        path = Path(self.listener.getsockname())
        try:
            lock = os.open(path.with_name(LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the folder is gone: nobody can come any more
            return True
        fcntl.flock(lock, fcntl.LOCK_EX)
        if poll.poll(0):
            os.close(lock)
            return False
        self.listener.close()
        for left in (path, path.with_suffix(".log")):
            left.unlink(missing_ok=True)
        os.close(lock)
        return True

    def _let_go(self, *more: socket.socket) -> None:
        """In a child: no object may close a descriptor later that is somebody else's by then."""
        forked.forget_signals()
        of_judges = [sock for judge in self.judges for sock in (judge.line, judge.client)]
        for sock in (self.listener, *of_judges, *more):
            if sock is not None:
                sock.detach()
        self.judges.clear()


def judges_that_fit(descriptors: int) -> int:
    """How many judges can be served with so many descriptors: each takes two, its client's and its line."""
    return max(1, (descriptors - _OTHER_DESCRIPTORS) // 2)


def fork() -> int:
    """Fork this process while it has one thread. Raises RuntimeError where it has more: a child might hang."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the evaluator has {threads} threads: no child of it could be trusted to run")
    return os.fork()


def peer_uid(sock: socket.socket) -> int:
    """The uid of the process at the other end of a Unix socket, as the kernel knows it."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid


def _wake_on_children() -> int:
    readable, written = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return readable


def _kill(pid: int) -> None:
    """A judge and the compilers that it started; its workers end with it by themselves."""
    for kill in (os.killpg, os.kill):  # it may not have made its group yet
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def _listener() -> socket.socket:
    """The socket that this process was started with, away from descriptor 0."""
    listener = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    listener.setblocking(False)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return listener


def _serve(digest: str) -> Role | None:
    from kbverified.evaluator import preload
    from kbverified.evaluator.key import source_digest

    listener = _listener()
    preload.preload(preload.LIBRARIES, preload.LIBRARIES_IF_THERE, preload.package_modules())
    if source_digest() != digest:
        raise RuntimeError("the package was edited while the evaluator imported it")
    return Server(listener, float(os.environ.get(IDLE_VARIABLE, IDLE_S))).run()


def main(words: Sequence[str]) -> int:
    """Serve; and in the children, once nothing of the loop is on the stack, be what they were forked for."""
    role = _serve(words[0])
    if role == "judge":
        from kbverified.evaluator import judge

        return judge.main()
    return forked.run_launcher() if role == "launcher" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
