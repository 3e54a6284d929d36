"""The end of a worker's whole family: every process, also those that left its session or lost their parent.

Runs in the launcher, which is the subreaper: whatever a worker starts stays a descendant of it. Three ways, by
what the family is known by: the first process of a PID namespace, a uid of its own, or descent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from kbverified.sandbox.identity import Identity

_GIVE_UP_S = 15.0
_PAUSE_S = 0.05
"""Between two kills of a family that goes on forking; nobody else is waited for by the clock."""


def kill_namespace(init_pid: int) -> None:
    """The kernel kills every other process of a PID namespace with its first. Nobody can be missed."""
    try:
        os.kill(init_pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def kill_uid(identity: Identity) -> None:
    """Kill every process of the worker's uid: one kill(-1), during which none of them can fork.

    The sender's effective uid is the worker's, so that it reaches nobody else; its real and saved uid are the
    killer's, so that no worker can reach the sender. Raises OSError.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            killer, worker = identity.killer, identity.worker
            os.setresuid(killer, worker, killer)
            # kill(-1) as anybody else would be a disaster: look twice.
            if os.getresuid() == (killer, worker, killer) and 0 not in (killer, worker):
                os.kill(-1, signal.SIGKILL)
                code = 0
        except ProcessLookupError:
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise OSError(f"the processes of uid {identity.worker} could not be killed (status {status})")


def children_by_parent() -> dict[int, list[int]]:
    """Every process that is seen in /proc, under its parent's pid."""
    table: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command's name may hold anything, also parentheses: the last one ends it.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):  # it has ended
            continue
        table.setdefault(parent, []).append(int(name))
    return table


def descendants(root: int) -> list[int]:
    table = children_by_parent()
    found: list[int] = []
    pending = [root]
    while pending:
        below = table.get(pending.pop(), [])
        found += below
        pending += below
    return found


def kill_descendants(root: int) -> None:
    """Stop all first, until no new one appears (a fork bomb outruns a plain kill), then kill all."""
    stopped: set[int] = set()
    for _ in range(50):
        new = set(descendants(root)) - stopped
        if not new:
            break
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        _signal(pid, signal.SIGKILL)


def kill_seen_of_uid(uid: int) -> None:
    """Kill what /proc shows of a uid, until it shows nothing. For the judge, which cannot fork safely."""
    for _ in range(50):
        seen = [int(e.name) for e in os.scandir("/proc") if e.name.isdigit() and _owner(e) == uid]
        if not seen:
            return
        for pid in seen:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.01)


def _owner(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_uid
    except OSError:  # it has ended
        return None


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def end(identity: Identity | None, init_pid: int | None, reaped: dict[int, int], wake: int) -> int:
    """Kill the family of this process until none is left, and reap it.

    ``reaped`` receives wait statuses by pid. ``wake`` is a descriptor that becomes readable when a child ends: a device
    is held until its workers are gone, which takes a GPU's context a quarter of a second, and no longer. Returns how
    many processes could not be ended within 15 s (they hang in the kernel). Raises OSError.
    """
    deadline = time.monotonic() + _GIVE_UP_S
    while True:
        if init_pid is not None:
            kill_namespace(init_pid)
        elif identity is not None:
            kill_uid(identity)
        else:
            kill_descendants(os.getpid())
        _drain(wake)  # before the reaping: whoever ends after it is heard of
        if not reap(reaped):
            return 0
        if time.monotonic() > deadline:
            return len(descendants(os.getpid()))
        select.select([wake], [], [], _PAUSE_S)


def _drain(wake: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while len(os.read(wake, 512)) == 512:
            pass


def reap(reaped: dict[int, int]) -> bool:
    """Collect every child that has ended. Returns whether children are left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        reaped[pid] = status
