"""Hand a command over to an evaluator, and start one where there is none. Torch-free.

A command that no evaluator takes runs here, as it would without; one that was taken and whose judge then vanishes is an
infrastructure fault, for nobody knows how far it got.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kbverified.evaluator import key as keys
from kbverified.evaluator.server import IDLE_VARIABLE, LOCK_NAME, peer_uid
from kbverified.exit_codes import EXIT_INFRASTRUCTURE

FOLDER_VARIABLE = "KBV_EVALUATOR_DIR"
_ATTEMPTS = 2
_IMPORT_S = 180.0
_WAITING_CLIENTS = 512


class Unusable(Exception):
    """No evaluator can be had. The message says why."""


def run(words: list[str]) -> int | None:
    """Exit code of this command in a forked judge; None where it has to run in this process."""
    why = keys.against(os.environ)
    try:
        for _ in range(_ATTEMPTS if why is None else 0):
            with _connected() as connection:
                code = _command(connection, words)
            if code is not None:
                return code
        why = why or "it ended before it had taken the command; its folder may have a log"
    except (OSError, Unusable) as error:
        why = str(error)
    print(f"kbverified: this command runs without the evaluator: {why}", file=sys.stderr)
    return None


def folder() -> Path:
    """Where this user's evaluators have their sockets: nobody else can enter it. Raises Unusable, OSError."""
    place = Path(os.environ.get(FOLDER_VARIABLE) or f"/tmp/kbverified-evaluators-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise Unusable(f"{place} is not this user's own folder with mode 0700: remove it, or set {FOLDER_VARIABLE}")
    return place


@contextlib.contextmanager
def _connected() -> Iterator[socket.socket]:
    """A connection to the evaluator of this command, which is started where there is none."""
    name = keys.key(os.environ)
    place = folder()
    path = place / f"{name}.sock"
    connection = _connect(path) or _start(place, path)
    try:
        if peer_uid(connection) != os.getuid():
            raise Unusable(f"{path} belongs to another user's process")
        yield connection
    finally:
        connection.close()


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError:
        connection.close()
        raise
    return connection


def _start(place: Path, path: Path) -> socket.socket:
    """Start an evaluator, once for all who want it now. It has the listening socket from here: nobody has to wait for
    its imports to be able to connect."""
    lock = os.open(place / LOCK_NAME, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connect(path)
        if connection is not None:
            return connection
        path.unlink(missing_ok=True)
        _sweep(place)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            listener.listen(_WAITING_CLIENTS)
            environment = keys.environment(os.environ)
            if IDLE_VARIABLE in os.environ:
                environment[IDLE_VARIABLE] = os.environ[IDLE_VARIABLE]
            with open(path.with_suffix(".log"), "wb") as log:
                fcntl.flock(log, fcntl.LOCK_SH)  # the evaluator's from here on, by the descriptor it inherits
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "kbverified.evaluator.server", keys.source_digest()],
                    stdin=listener.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env=environment,
                    cwd="/",
                    start_new_session=True,
                    umask=0o022,
                )
            connection = _connect(path)
        if connection is None:
            raise Unusable(f"{path}: nobody listens")
        return connection
    finally:
        os.close(lock)


def _sweep(place: Path) -> None:
    """Remove the sockets of evaluators that were killed, and logs that say nothing: nobody holds those any more.

    A batch system kills every evaluator with the step that started it, and each has a key of its own.
    """
    for log in place.glob("*.log"):
        with contextlib.suppress(OSError), open(log, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.with_suffix(".sock").unlink(missing_ok=True)
            if os.fstat(held.fileno()).st_size == 0:
                log.unlink()


def _command(connection: socket.socket, words: list[str]) -> int | None:
    """Send the command and wait for its end; None where nobody has taken it."""
    umask = os.umask(0o022)
    os.umask(umask)
    request = {
        "argv": [sys.argv[0], *words],
        "cwd": os.getcwd(),
        "umask": umask,
        "cores": sorted(os.sched_getaffinity(0)),
        "environ": dict(os.environ),
        "path": sys.path,
    }
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        text = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [text], [0, 1, 2])
        connection.sendall(text[sent:])
        started = _line(connection, time.monotonic() + _IMPORT_S)
    except ConnectionError:
        return None
    except TimeoutError:
        raise Unusable(f"it did not take the command within {_IMPORT_S:.0f} s") from None
    if started is None:
        return None
    code = None
    with contextlib.suppress(ConnectionError):
        ended = _line(connection)
        if ended is not None:
            code = int(ended["code"])
            _line(connection)  # until the judge's process is gone, with all that it holds
    if code is None:
        print(
            f"kbverified: infrastructure fault, nothing was recorded: the judge (process {started['judge']}) has ended "
            "without an answer, or its evaluator has",
            file=sys.stderr,
        )
        return EXIT_INFRASTRUCTURE
    return code


def _line(connection: socket.socket, deadline: float | None = None) -> dict | None:
    """The next line; None where the other end has closed. Raises TimeoutError, ConnectionError."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        if not poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        part = connection.recv(1)
        if not part:
            return None
        line += part
    return json.loads(line)
