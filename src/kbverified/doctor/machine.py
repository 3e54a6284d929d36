"""The machine itself: cores, memory, disk, limits of this user. Linux's own files, nothing is set."""

from __future__ import annotations

import os
import platform
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kbverified import __version__, import_environment, lease
from kbverified.check.place import CACHE_VARIABLE, build_root, cache_folder
from kbverified.devices import cpu_model
from kbverified.doctor.finding import GIB, Finding, fail, nearest, ok, room, size, warn

ENOUGH_MEMORY_BYTES = 8 * GIB
"""What the workflow's rules ask for of a job on a device (mem_mb)."""
UNLIMITED = resource.RLIM_INFINITY

LIMITS = {
    "RLIMIT_NPROC": (1024, "processes", "judge, workers and compilers"),
    "RLIMIT_NOFILE": (1024, "open files", "torch and the evaluator"),
    "RLIMIT_FSIZE": (8 * GIB, "bytes of a file", "headers and built extensions"),
    "RLIMIT_AS": (UNLIMITED, "bytes of address space", "CUDA, which reserves far more than it touches"),
    "RLIMIT_CPU": (UNLIMITED, "seconds of CPU", "judges that compile and time"),
}
"""Limit: the least that does, what it counts, who needs it."""


def system() -> Iterator[Finding]:
    name = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() != "Linux":
        yield fail("system", name, "use Linux: sandbox and shared buffers are made for it")
    else:
        yield ok("system", name)
    yield ok("user", f"{'root' if os.geteuid() == 0 else f'uid {os.geteuid()}'}, kbverified {__version__}")
    yield from _cores()
    yield _memory()
    dropped = import_environment.read_at_import(os.environ)
    if dropped:
        todo = "unset them: they change torch's arithmetic, and no judge or worker gets them"
        yield warn("environment", f"set: {', '.join(dropped)}", todo)


def _cores() -> Iterator[Finding]:
    mine, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    value = f"{cpu_model()}, {mine} of {os.cpu_count()} cores usable"
    if mine < 2:
        yield warn("cores", value, "give this process two cores or more: the judge disturbs what it times")
    else:
        yield ok("cores", value)
    quota = cpu_quota(Path("/sys/fs/cgroup/cpu.max"))
    if quota is not None and quota < mine:
        yield warn("CPU quota", f"{quota:g} cores", "lift the container's limit: a throttled process gives false times")
    value = f"{load:.1f} processes on {mine} cores in the last minute"
    if load > mine / 2:
        yield warn("load", value, "wait for other work to end before you time on the CPU")
    else:
        yield ok("load", value)


def cpu_quota(path: Path) -> float | None:
    """Cores' worth of CPU time that this control group may use (cgroup v2's cpu.max); None without a limit."""
    try:
        quota, period = path.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _memory() -> Finding:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _number(Path("/sys/fs/cgroup/memory.max"))
    usable = min(pages, limit) if limit is not None else pages
    value = f"{size(usable)}{' (limit of the container)' if usable < pages else ''}"
    if usable < ENOUGH_MEMORY_BYTES:
        return warn(
            "memory", value, f"{size(ENOUGH_MEMORY_BYTES)} are better: large problems will end as out_of_memory"
        )
    return ok("memory", value)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def folders(root: Path | None) -> Iterator[Finding]:
    """Where builds, caches, temporary files and leases lie."""
    build = build_root(root)
    for name, folder in {"build folder": build, "cache folder": cache_folder()}.items():
        yield room(name, folder, GIB, 5 * GIB, "headers, extensions and audits are kept there")
        yield from _usable(name, folder)
    temporary = Path(tempfile.gettempdir())
    yield room("temporary folder", temporary, GIB // 4, GIB, "compilers and checks put files there")
    if Path("/dev/shm").is_dir():
        yield room("shared memory", Path("/dev/shm"), GIB // 16, GIB // 4, "start the container with --shm-size=1g")
    leases = lease.lease_directory()
    if leases.is_dir() and not os.access(leases, os.W_OK | os.X_OK):
        yield fail("lease folder", f"{leases}: not writable", "make it writable, or set KBV_LEASE_DIR to another one")
    else:
        yield ok("lease folder", str(leases))


def _usable(name: str, folder: Path) -> Iterator[Finding]:
    there = nearest(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        yield fail(name, f"{there}: not writable", f"make it writable, or name another folder in {CACHE_VARIABLE}")
    elif os.statvfs(there).f_flag & os.ST_NOEXEC:
        todo = f"name a folder on another file system in {CACHE_VARIABLE}: extensions are loaded from there"
        yield fail(name, f"{there}: mounted noexec", todo)


def limits() -> Iterator[Finding]:
    low = []
    for name, (least, what, who) in LIMITS.items():
        soft, _ = resource.getrlimit(getattr(resource, name))
        if soft != UNLIMITED and (least == UNLIMITED or soft < least):
            low.append(f"{soft} {what} (for {who})")
    if low:
        yield warn("limits", "; ".join(low), "raise them with ulimit, or in the container's or cluster's settings")
    else:
        yield ok("limits", ", ".join(what for _, what, _ in LIMITS.values()) + ": enough")
