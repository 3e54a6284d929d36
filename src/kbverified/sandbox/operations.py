"""What each mechanism denies: the one table that the tests assert, row by row, and docs/sandbox.md repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kbverified.sandbox.request import Mechanism

Outcome = Literal["denied", "allowed", "depends"]
COLUMNS: tuple[Mechanism, ...] = ("root-namespaces", "user-namespaces", "landlock", "bare")


@dataclass(frozen=True)
class Operation:
    """One thing that a hostile worker might try, and what comes of it under each of COLUMNS.

    "depends" is for what this package does nothing about: the machine's settings decide.
    """

    name: str
    description: str
    outcomes: tuple[Outcome, Outcome, Outcome, Outcome]
    note: str = ""

    def outcome(self, mechanism: Mechanism) -> Outcome:
        return self.outcomes[COLUMNS.index(mechanism)]


_D: Outcome = "denied"
_A: Outcome = "allowed"
_CONFINED: tuple[Outcome, Outcome, Outcome, Outcome] = (_D, _D, _D, _A)
_ALWAYS: tuple[Outcome, Outcome, Outcome, Outcome] = (_D, _D, _D, _D)
_DEPENDS: tuple[Outcome, Outcome, Outcome, Outcome] = (_D, _D, _D, "depends")

OPERATIONS: tuple[Operation, ...] = (
    # files
    Operation("read_judge_file", "read a file of the judge's, mode 0600", _CONFINED),
    Operation("read_other_candidate", "read a world-readable file in a folder not named in readable", _CONFINED),
    Operation("list_other_folder", "list such a folder", _CONFINED),
    Operation("stat_other_folder", "learn that such a folder exists", (_D, _D, _A, _A)),
    Operation("write_outside", "write into a world-writable folder not named in writable", _CONFINED),
    Operation("write_readable", "write into a world-writable folder that is only readable", _CONFINED),
    Operation("change_mode", "change the mode of a file of the judge's", _CONFINED),
    Operation("change_mode_readable", "change the mode of a file of the judge's that it may read", _CONFINED),
    Operation("see_judges_tmp", "see the judge's files in /tmp", _CONFINED),
    # processes
    Operation("see_judge", "read the judge's command line in /proc", _CONFINED),
    Operation("read_judge_environ", "read the judge's environment in /proc", _DEPENDS),
    Operation("read_judge_memory", "open the judge's /proc/PID/mem", _DEPENDS),
    Operation("trace_judge", "ptrace the judge", _DEPENDS),
    Operation("signal_judge", "send the judge a signal", _CONFINED, "landlock: from ABI 6 (Linux 6.12)"),
    Operation("limit_judge", "set a resource limit of the judge's", _CONFINED),
    Operation("slow_judge", "lower the judge's priority or move it to other cores", _CONFINED),
    Operation("see_other_worker", "read another worker's command line", _CONFINED),
    Operation("signal_other_worker", "send another worker a signal", _CONFINED, "landlock: from ABI 6"),
    Operation("trace_own_child", "ptrace a child of its own", _CONFINED),
    # network and other ways out
    Operation("connect_loopback", "connect to a TCP port of this machine", _CONFINED),
    Operation("send_datagram", "send a UDP datagram to this machine", _CONFINED),
    Operation("connect_abstract", "connect to an abstract Unix socket", _CONFINED),
    Operation("connect_path", "connect to a Unix socket in a folder that it does not see", _CONFINED),
    Operation("attach_shared_memory", "attach System V shared memory of the judge", _CONFINED),
    # inheritance
    Operation("inherited_variable", "find one of the judge's environment variables in its own", _ALWAYS),
    Operation("inherited_descriptor", "find an open file of the judge's among its descriptors", _ALWAYS),
    Operation("inherited_memory", "find what the judge holds in its own memory", _ALWAYS),
    Operation("supplementary_groups", "have supplementary groups", (_D, "depends", "depends", "depends")),
    # privileges
    Operation("new_namespace", "make a user namespace", _DEPENDS),
    Operation("hold_capabilities", "hold a capability", _DEPENDS),
    Operation("become_root", "gain anything by a set-user-ID program", _ALWAYS),
    Operation("raise_limit", "raise a hard limit again", _DEPENDS, "bare: allowed where the judge is root"),
    # resources
    Operation("exceed_processes", "have more processes and threads than its limit", _DEPENDS),
    Operation("exceed_memory", "have more address space than its limit", _ALWAYS),
    Operation("exceed_file_size", "write a longer file than its limit", _ALWAYS),
    Operation("dump_core", "leave a core file", _ALWAYS),
    Operation("flood", "print more than its limit and live", _ALWAYS),
    Operation("outlive_kill", "leave a daemon (new session, two forks) that outlives kill()", _ALWAYS),
    Operation("outlive_exit", "leave a daemon that outlives the worker's first process", _ALWAYS),
    Operation("outlive_judge", "outlive the judge's own SIGKILL", _ALWAYS),
)
