"""What commands must not leave behind: processes, shared memory, temporary files, half-written records, held locks.

Processes are told by descent: whoever watches becomes the parent of every orphan below it (PR_SET_CHILD_SUBREAPER, see
prctl(2)), so that nothing gets away by moving to a session of its own or by outliving its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Collection
from pathlib import Path

from kbverified import file_lock
from kbverified.deadline import descendants

_PR_SET_CHILD_SUBREAPER = 36
IDLE_S = 3.0


class Watch:
    """Look after all that is started below this process with ``environment``, from now until ``close``."""

    def __init__(self, folder: Path, idle_s: float = IDLE_S):
        """``folder``: a short path, for there will be sockets in it (at most 107 characters with their names).

        ``idle_s``: how long an evaluator waits for its next client.
        """
        self.temporary, self.leases, self.evaluators = (folder / name for name in ("tmp", "leases", "evaluators"))
        for place in (self.temporary, self.leases, self.evaluators):
            place.mkdir(mode=0o700, exist_ok=True)
        self.environment = {
            "TMPDIR": str(self.temporary),
            "KBV_LEASE_DIR": str(self.leases),
            "KBV_EVALUATOR_DIR": str(self.evaluators),
            "KBV_EVALUATOR_IDLE_S": str(idle_s),
        }
        self._shared_memory = _shared_memory()
        self._processes = descendants(os.getpid())
        _adopt_orphans(True)

    def close(self) -> None:
        _adopt_orphans(False)

    def wait(self, limit_s: float = 20.0, *, records: Path | None = None, evaluators: bool = True) -> list[str]:
        """What is still there after so many seconds; empty as soon as nothing is.

        ``evaluators`` may wait for their next client; without, they have to have ended as well, which they do by
        themselves. ``records``: a folder with no place for half-written files.
        """
        deadline = time.monotonic() + limit_s
        while True:
            found = self.left(records=records, evaluators=evaluators)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def left(self, *, records: Path | None = None, evaluators: bool = True) -> list[str]:
        self.reap_orphans()
        spared = self.evaluator_pids() if evaluators else []
        found = [f"process {pid}: {words}" for pid, words in self._running().items() if pid not in spared]
        new = sorted(_shared_memory() - self._shared_memory)
        found += [f"shared memory {name}" for name in new if not _in_use_by_others(name, self.pids())]
        found += [f"temporary file {path}" for path in sorted(self.temporary.rglob("*")) if not _is_torchs(path)]
        found += [f"held lock {path}" for path in sorted(self.leases.iterdir()) if file_lock.is_held(path)]
        if records is not None:
            found += [f"half a record {path}" for path in sorted(records.rglob(".*.tmp"))]
        if not evaluators:
            found += [f"socket or log {path}" for path in sorted(self.evaluators.iterdir()) if path.suffix != ".lock"]
        return found

    def evaluator_pids(self) -> list[int]:
        """The warm processes themselves, without what they have forked."""
        of_one = [pid for pid, words in self._running().items() if "kbverified.evaluator.server" in words]
        return [pid for pid in of_one if _parent(pid) not in of_one]

    def judge_pids(self) -> list[int]:
        """Forked judges: those children of an evaluator that have gone where their client is; a launcher stays in /."""
        warm = self.evaluator_pids()
        return [pid for pid in self._running() if _parent(pid) in warm and _folder(pid) not in ("/", None)]

    def pids(self) -> list[int]:
        """Processes that have come since this watch began, with those that have ended and wait to be reaped."""
        return [pid for pid, start in descendants(os.getpid()).items() if self._processes.get(pid) != start]

    def _running(self) -> dict[int, str]:
        """Command lines of those that run."""
        words = {pid: _words(pid) for pid in self.pids() if _fields(pid)[:1] not in (["Z"], [])}
        return {pid: text for pid, text in words.items() if text is not None}

    def reap_orphans(self, own: Collection[int] = ()) -> None:
        """Collect those that were adopted and have ended, but for children that this process started itself: those of
        its own session, and ``own``."""
        for pid in self.pids():
            if (
                pid not in own
                and _fields(pid)[:1] == ["Z"]
                and _parent(pid) == os.getpid()
                and _session(pid) != _session(os.getpid())
            ):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _adopt_orphans(do: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(do), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def _shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def _in_use_by_others(name: str, ours: list[int]) -> bool:
    """Whether a living process beside these has it: a browser or another test on this machine, whose matter it is."""
    path = f"/dev/shm/{name}"
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) in (*ours, os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if path in (process / "maps").read_text(errors="replace"):
                return True
            if any(os.readlink(link) == path for link in (process / "fd").iterdir()):
                return True
    return False


def _is_torchs(path: Path) -> bool:
    """A folder that torch makes once per user when its compiler's front end is imported, and in which nothing is."""
    return path.name.startswith("torchinductor_") and not any(path.iterdir())


def _fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty where it has ended (proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def _session(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[3]) if fields else None


def _folder(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def _words(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:300]
    except OSError:
        return None
