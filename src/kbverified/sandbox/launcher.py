"""The launcher: a small trusted process beside every worker, executed afresh as ``python -I -S launcher.py``.

Where the judge has a warm process, the launcher is forked from that (forked.py) and runs the same ``main``.

It starts the worker and stays as its parent. It ends the worker's whole family when the worker's first process
has ended, when the judge says so, or when the judge has died by whatever cause; and then itself. Its standard
input is a socket to the judge: a plan comes in, one line when the worker has started (or not), one when all is over.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # -I and -S leave neither this package nor any site folder on the path: nothing but the standard library runs here.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import json
import resource
import select
import signal

from kbverified.sandbox import confine, family, identity, linux
from kbverified.sandbox.plan import Plan, Refused

CONTROL = 0


def main() -> int:
    plan = Plan.decode(_read_line())
    wake = _wake_on_signals()
    try:
        who = _prepare(plan)
        init_pid = _start_namespace_init(who) if plan.pid_namespace else None
        worker_pid = _start_worker(plan, who)
    except Refused as refusal:
        _answer({"refused": refusal.step, "text": refusal.text, "unavailable": refusal.unavailable})
        _clean_up(plan)
        return 1
    _let_go_of(plan.channel_fd)
    _answer({"started": worker_pid, "uid": who.worker if who else os.getuid()})
    reaped: dict[int, int] = {}
    _watch(worker_pid, init_pid, wake, plan.judge_pid, reaped)
    # For a family that still runs now, this is the end: at level full without a PID namespace it is known by uid.
    stuck = family.end(who, init_pid, reaped, wake)
    _clean_up(plan)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    _answer(
        {
            "ended": os.waitstatus_to_exitcode(reaped[worker_pid]) if worker_pid in reaped else None,
            "stuck": stuck,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss_bytes": used.ru_maxrss * 1024,
        }
    )
    return 0


def _prepare(plan: Plan) -> identity.Identity | None:
    """What concerns the launcher itself: the subreaper, the user namespace, the worker's uid. Raises Refused."""
    try:
        linux.adopt_orphans()
        who = None
        root = os.geteuid() == 0
        if plan.mechanism == "root-namespaces":
            if not root or not linux.has_capability(21):
                raise OSError("it needs root with CAP_SYS_ADMIN")
            who = identity.own()
        elif plan.mechanism == "user-namespaces":
            if root:
                raise OSError("root would stay root on files such as /proc/sys: not offered")
            _enter_user_namespace()
        elif plan.mechanism == "landlock" and root:
            who = identity.own()
        if plan.pid_namespace:
            linux.unshare(linux.CLONE_NEWPID)
    except OSError as error:
        raise Refused("preparation", str(error), unavailable=True) from None
    return who


def _enter_user_namespace() -> None:
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _start_namespace_init(who: identity.Identity | None) -> int:
    """The first process of the PID namespace: does nothing, and takes everything with it when it is killed."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans vanish without being waited for
            if who is not None:
                os.setgroups([])
                os.setresgid(who.killer, who.killer, who.killer)
                os.setresuid(who.killer, who.killer, who.killer)
            linux.drop_capabilities()
            linux.hide_memory()
            linux.die_with_parent()
            os.chdir("/")
            os.write(told, b"r")
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(told)
    answer = os.read(ready, 1)
    os.close(ready)
    if not answer:
        os.waitpid(pid, 0)
        raise Refused("pid namespace", "its first process did not start", unavailable=True)
    return pid


def _start_worker(plan: Plan, who: identity.Identity | None) -> int:
    """Fork and exec the worker. Returns its pid once it runs its own program. Raises Refused."""
    status, told = os.pipe()
    launcher_pid = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise Refused("fork", str(error), unavailable=False) from None
    if pid == 0:
        signal.set_wakeup_fd(-1)
        confine.become_worker(plan, who, told, launcher_pid)
    os.close(told)
    text = b""
    while part := os.read(status, 4096):  # ends with the exec, which closes the pipe
        text += part
    os.close(status)
    if text:
        os.waitpid(pid, 0)
        step, kind, detail = text.decode("utf-8", "replace").split("\t", 2)
        raise Refused(step, detail, unavailable=kind == "unavailable")
    return pid


def _let_go_of(channel_fd: int) -> None:
    """Keep no end of what is the worker's: the judge shall see it close when the family has gone."""
    os.close(channel_fd)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _wake_on_signals() -> int:
    """A descriptor that becomes readable when a child ends or somebody asks this process to end."""
    readable, written = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return readable


def _watch(worker_pid: int, init_pid: int | None, wake: int, judge_pid: int, reaped: dict[int, int]) -> None:
    """Return when the worker's first process has ended, the judge has spoken or the judge has died."""
    poll = select.poll()
    poll.register(CONTROL, select.POLLIN)
    poll.register(wake, select.POLLIN)
    try:
        judge = os.pidfd_open(judge_pid)
        poll.register(judge, select.POLLIN)
    except OSError:  # before Linux 5.3, or it is gone: then the socket says so
        judge = -1
    while True:
        family.reap(reaped)
        if worker_pid in reaped or init_pid in reaped:
            return
        for fd, _ in poll.poll():
            if fd in (CONTROL, judge):
                return
            if fd == wake and signal.SIGTERM in os.read(wake, 512):
                return


def _clean_up(plan: Plan) -> None:
    if plan.scratch is not None:
        import shutil

        shutil.rmtree(plan.scratch, ignore_errors=True)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(CONTROL, 1 << 16)
        if not part:
            raise SystemExit("launcher: the judge ended before it had sent a plan")
        line += part
    return line


def _answer(message: dict) -> None:
    try:
        os.write(CONTROL, json.dumps(message).encode() + b"\n")
    except OSError:  # the judge is dead: nobody to tell
        pass


if __name__ == "__main__":
    sys.exit(main())
