"""Uids for workers: one of its own for each, that belongs to nobody else on the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

# 0x70000000 and above (to 2^31) are the uids that systemd's list (systemd.io/UIDS-GIDS) calls unused: neither
# people, nor services, nor containers. A pid has at most 22 bits.
_WORKER_BASE = 0x70000000
_KILLER_BASE = 0x78000000
_PID_SPAN = 1 << 22
# Where a container maps fewer ids: this many pairs from the top of what it maps.
_SMALL_SPAN = 4096


@dataclass(frozen=True)
class Identity:
    """``worker`` runs the untrusted code. ``killer`` is who kills the family: a worker cannot signal it."""

    worker: int
    killer: int


def mapped_ranges(text: str) -> list[range]:
    """Ids that exist inside this user namespace, from the text of /proc/self/uid_map."""
    ranges = []
    for line in text.splitlines():
        first, _, count = (int(part) for part in line.split())
        ranges.append(range(first, first + count))
    return ranges


def choose(pid: int, ranges: list[range]) -> Identity:
    """The identity of the worker whose launcher has this pid. Raises OSError where the ids do not suffice."""
    worker, killer = _WORKER_BASE + pid % _PID_SPAN, _KILLER_BASE + pid % _PID_SPAN
    if any(worker in r for r in ranges) and any(killer in r for r in ranges):
        return Identity(worker, killer)
    largest = max(ranges, key=len, default=range(0))
    # Half of the range at most, and not its last ids: nobody and nogroup are there.
    span = min(_SMALL_SPAN, len(largest) // 4)
    if span < 64:
        raise OSError(f"this container maps only {len(largest)} uids: no worker can have one of its own")
    top = largest.stop - 16
    return Identity(top - 1 - 2 * (pid % span), top - 2 - 2 * (pid % span))


def uids_in_use() -> set[int]:
    """Owner of every process that is seen, and every uid of /etc/passwd."""
    used = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                used.add(entry.stat().st_uid)
            except OSError:  # it has ended
                continue
    try:
        with open("/etc/passwd") as file:
            used.update(int(fields[2]) for fields in (line.split(":") for line in file) if len(fields) > 2)
    except (OSError, ValueError):
        pass
    return used


def own() -> Identity:
    """The identity for a worker of this process. Raises OSError.

    Killing by uid must never meet anybody else, so an id that is in use is refused, however unlikely it is.
    """
    with open("/proc/self/uid_map") as file:
        identity = choose(os.getpid(), mapped_ranges(file.read()))
    taken = uids_in_use() & {identity.worker, identity.killer}
    if taken:
        raise OSError(f"uid {taken.pop()} is in use already: no worker can have it")
    return identity
