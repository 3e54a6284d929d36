"""A forked judge: takes over what a fresh process would have had from its client, and runs the client's command.

Descriptor 3 is the connection to the client, 4 the line to the evaluator. What comes over the connection: one line of
JSON and the client's standard input, output and error. What goes back: one line at the start, one with the exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import sys
from typing import Any, NoReturn

from kbverified.sandbox import forked, linux

CONNECTION_FD, LINE_FD = 3, 4
STANDARD_FDS = 3


def main() -> NoReturn:
    """Run the command. Its exit code goes to the client; when this process has ended, the client ends as well."""
    os.setsid()  # a group of its own, so that it can be killed with what it starts
    evaluator_pid = os.getppid()
    linux.die_with_parent()
    if os.getppid() != evaluator_pid:
        os._exit(1)
    connection = socket.socket(fileno=CONNECTION_FD)
    forked.use(socket.socket(fileno=LINE_FD))
    words = _become(_read(connection))
    connection.sendall(json.dumps({"judge": os.getpid()}).encode() + b"\n")

    from kbverified import cli

    code = cli.main(words)
    with contextlib.suppress(OSError):  # nobody reads them any more
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):  # the client is gone
        connection.sendall(json.dumps({"code": code}).encode() + b"\n")
    # As multiprocessing ends its children: exit functions and no more. Taking the interpreter down would copy what it
    # shares with the evaluator. The connection stays open until this process is gone.
    atexit._run_exitfuncs()
    os._exit(code)


def _read(connection: socket.socket) -> dict[str, Any]:
    """The request; the client's descriptors take their places."""
    text, fds, _, _ = socket.recv_fds(connection, 1 << 16, STANDARD_FDS, forked.CLOSE_ON_EXEC)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    while not text.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            raise SystemExit(1)  # the client has died
        text += part
    request: dict[str, Any] = json.loads(text)
    return request


def _become(request: dict[str, Any]) -> list[str]:
    """Working directory, environment, import path and the rest of the client's; returns its command line."""
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    os.sched_setaffinity(0, request["cores"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.path[:] = request["path"]
    sys.argv = list(request["argv"])
    forked.reseed()
    forked.fit_threads()
    return sys.argv[1:]
