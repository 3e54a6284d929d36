"""From a fork of the launcher to the worker: the steps, in the only order that works, and the exec at their end.

A worker that is forked from a warm process goes through the same steps and ends in ForkedWorker instead of an exec.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

from kbverified.sandbox import landlock, linux, mounts, ownership, seccomp
from kbverified.sandbox.identity import Identity
from kbverified.sandbox.plan import Plan, Refused

CHANNEL_FD = 3
_STATUS_FD = 4
_OF_THE_REQUEST = ("affinity", "ownership of writable paths", "limits", "exec")
"""Steps whose failure is the request's fault: a weaker mechanism would not mend it."""

Step = tuple[str, Callable[[], None]]


class ForkedWorker(BaseException):
    """This process is confined and is to run the plan's program, once nothing of the launcher is on its stack.

    No Exception, so that nothing on the way up takes it for a failure.
    """

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        super().__init__()
        self.argv = argv
        self.env = env


def become_worker(plan: Plan, identity: Identity | None, status_fd: int, launcher_pid: int) -> None:
    """Confine this process and execute the worker. Does not return; a failure is written to ``status_fd``.

    One line: step, "unavailable" or "request", text; tab-separated. Raises ForkedWorker where the plan says forked.
    """
    step = "descriptors"
    try:
        status_fd = _arrange_descriptors(plan.channel_fd, status_fd)
        for name, action in _steps(plan, identity, launcher_pid):
            step = name
            action()
        step = "exec"
        if plan.forked:
            os.close(status_fd)  # as an exec would: the launcher takes it for the start
            raise ForkedWorker(plan.argv, plan.env)
        os.execve(plan.argv[0], plan.argv, plan.env)
    except ForkedWorker:
        raise
    except Refused as refusal:
        _report(status_fd, refusal.step, refusal.unavailable, refusal.text)
    except BaseException as error:  # whatever it is, the judge learns it and this process ends
        _report(status_fd, step, step not in _OF_THE_REQUEST, f"{type(error).__name__}: {error}")
    os._exit(127)


def _steps(plan: Plan, identity: Identity | None, launcher_pid: int) -> list[Step]:
    namespaces = plan.mechanism in ("root-namespaces", "user-namespaces")
    own = identity is not None
    # The score first: once the uid has changed, the process's own /proc files are no longer its own.
    steps: list[Step] = [("session", os.setsid), ("out of memory score", _volunteer_for_oom)]
    if plan.cores is not None:
        steps.append(("affinity", lambda: os.sched_setaffinity(0, plan.cores or ())))
    if identity is not None:
        steps.append(("ownership of writable paths", lambda: _adopt(plan, identity)))
    if namespaces:
        steps += [("namespaces", _enter_namespaces), ("mounts", lambda: _enter_root(plan, identity))]
    steps.append(("limits", lambda: _set_limits(plan, counted_alone=own or namespaces)))
    if plan.mechanism != "bare":
        steps.append(("capabilities", _empty_bounding_set))
    if identity is not None:
        steps.append(("uid", lambda: _become(identity.worker)))
    if plan.mechanism != "bare":
        steps.append(("capabilities", linux.drop_capabilities))
    if plan.forked:
        steps.append(("dumpable", linux.show_memory))
    steps += [
        ("access", lambda: _check_access(plan)),
        ("parent", lambda: _die_with(launcher_pid)),
        ("no_new_privs", linux.forbid_new_privileges),
        ("working directory", lambda: os.chdir(plan.scratch or "/tmp")),
    ]
    if plan.mechanism == "landlock":
        steps.append(("landlock", lambda: _restrict(plan)))
    if plan.mechanism != "bare":
        steps.append(("seccomp", lambda: seccomp.install(namespaces, own)))
    # Where the filter lets no mode but private ones be set, files are made private from the start.
    private = plan.mechanism == "landlock" and not own
    steps += [("signals", _restore_signals), ("umask", lambda: _set_umask(0o077 if private else 0o022))]
    return steps


def _arrange_descriptors(channel_fd: int, status_fd: int) -> int:
    """0, 1, 2, the channel at 3 and, until the exec, the status pipe at 4; nothing else."""
    if status_fd == CHANNEL_FD:
        status_fd = os.dup(status_fd)
    os.dup2(channel_fd, CHANNEL_FD, inheritable=True)
    os.dup2(status_fd, _STATUS_FD, inheritable=False)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(5, os.sysconf("SC_OPEN_MAX"))
    return _STATUS_FD


def _enter_namespaces() -> None:
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
    linux.set_hostname("worker")


def _enter_root(plan: Plan, identity: Identity | None) -> None:
    # Before Linux 5.8 hidepid belongs to the PID namespace: setting it here would change the machine's own /proc.
    if identity is not None and not plan.pid_namespace and linux.release() < (5, 8):
        raise OSError("hiding other processes without a PID namespace needs Linux 5.8")
    mounts.enter_new_root(
        plan.read,
        plan.write,
        plan.devices,
        plan.links,
        plan.temporary_bytes,
        hide_processes=identity is not None,
        ids=(identity.worker, identity.worker) if identity else (os.getuid(), os.getgid()),
    )


def _adopt(plan: Plan, identity: Identity) -> None:
    for path in (*plan.write, *([plan.scratch] if plan.scratch else [])):
        ownership.adopt(path, identity.worker, identity.worker)


def _set_limits(plan: Plan, counted_alone: bool) -> None:
    """``counted_alone``: the kernel counts the family's processes apart from all others of the judge's user."""
    processes = plan.processes
    if processes is not None and not counted_alone:
        processes += _threads_of_user()
    # A core limit of 1 rather than 0 also keeps the kernel from feeding a core dump to a handler's pipe.
    core = max(plan.core, 1)
    wanted = {
        resource.RLIMIT_FSIZE: (plan.file_size_bytes, plan.file_size_bytes),
        resource.RLIMIT_NPROC: (processes, processes),
        resource.RLIMIT_NOFILE: (plan.open_files, plan.open_files),
        resource.RLIMIT_CORE: (core, core),
        resource.RLIMIT_AS: (plan.address_space_bytes, plan.address_space_bytes),
        resource.RLIMIT_CPU: (plan.cpu_s, None if plan.cpu_s is None else plan.cpu_s + 5),
    }
    for limit, (soft, hard) in wanted.items():
        if soft is None or hard is None:
            continue
        _, ceiling = resource.getrlimit(limit)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(limit, (soft, hard))


def _threads_of_user() -> int:
    """How many threads this uid runs now: RLIMIT_NPROC counts them all, the limit is meant for the worker's."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:  # it has ended
            continue
    return count


def _empty_bounding_set() -> None:
    if linux.has_capability(8):  # CAP_SETPCAP; without it there is nothing to lose under no_new_privs
        linux.drop_bounding_set()


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _check_access(plan: Plan) -> None:
    """The worker's uid must be able to read what it was given: say which path it is, instead of an import error."""
    for path in (plan.argv[0], *plan.read):
        if not os.access(path, os.R_OK):
            # Where there are no mounts, a closed folder above the path is in the way, and another mechanism may do.
            raise Refused(
                "access",
                f"{path} cannot be read by the worker's uid {os.getuid()}; make it (and, without mounts, the folders "
                "above it) readable for others: chmod o+rX",
                unavailable=plan.mechanism == "landlock",
            )
    for path in plan.write:
        if not os.access(path, os.W_OK):
            raise Refused("access", f"{path} cannot be written by the worker's uid {os.getuid()}", unavailable=False)


def _die_with(launcher_pid: int) -> None:
    linux.die_with_parent()
    # In a PID namespace the parent is outside and reads as 0; there the namespace's first process dies with it.
    if os.getppid() not in (0, launcher_pid):
        raise OSError("the launcher has ended")


def _volunteer_for_oom() -> None:
    """Out of memory, the kernel takes the worker, not the judge."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _restrict(plan: Plan) -> None:
    read = [*plan.read, *(path for path in _PROC_FACTS if os.path.exists(path)), "/dev/random", "/dev/urandom"]
    # CUDA's start writes the names of its threads into /proc/self/task/*/comm, and fails (304) where it may not.
    write = [*plan.write, *([plan.scratch] if plan.scratch else []), f"/proc/{os.getpid()}"]
    landlock.restrict(read, write, ["/dev/null", "/dev/zero", "/dev/full", *plan.devices])


_PROC_FACTS = (
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
)
"""What Landlock leaves of /proc besides the worker's own folder: facts about the machine, no other process."""


def _restore_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_umask(mask: int) -> None:
    os.umask(mask)


def _report(status_fd: int, step: str, unavailable: bool, text: str) -> None:
    line = "\t".join((step, "unavailable" if unavailable else "request", text.replace("\t", " ")))
    os.write(status_fd, line.encode("utf-8", "replace")[:4000])
