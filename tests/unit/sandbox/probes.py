"""What runs inside the sandbox in these tests: each probe tries one operation and says whether it worked.

Executed as ``python probes.py NAME < nothing``, with what it needs to know in the variable PROBE (JSON).
Standard library only. Prints one JSON object.
"""

import ctypes
import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

FACTS = json.loads(os.environ.get("PROBE", "{}"))
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read_judge_file():
    return open(FACTS["judge_file"]).read()


def read_other_candidate():
    return open(FACTS["other_file"]).read()


def list_other_folder():
    return str(os.listdir(os.path.dirname(FACTS["other_file"])))


def stat_other_folder():
    return str(os.stat(os.path.dirname(FACTS["other_file"])).st_ino)


def write_outside():
    return write(os.path.join(FACTS["outside"], "written"))


def write_readable():
    return write(os.path.join(FACTS["readable"], "written"))


def write(path):
    with open(path, "w") as file:
        return str(file.write("x"))


def change_mode():
    return any_of(lambda: os.chmod(FACTS["other_file"], 0o666))


def change_mode_readable():
    def by_descriptor():
        with open(FACTS["readable_file"]) as file:
            os.fchmod(file.fileno(), 0o666)

    return any_of(by_descriptor, lambda: os.utime(FACTS["readable_file"], (0, 0)))


def any_of(*attempts):
    """Denied only if every attempt is."""
    errors = []
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            errors.append(error)
    if len(errors) == len(attempts):
        raise errors[0]
    return f"{len(attempts) - len(errors)} of {len(attempts)}"


def limit_judge():
    soft, hard = resource.prlimit(FACTS["judge_pid"], resource.RLIMIT_CORE)
    resource.prlimit(FACTS["judge_pid"], resource.RLIMIT_CORE, (soft, hard))
    return "set"


def slow_judge():
    pid = FACTS["judge_pid"]
    return any_of(
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 1), lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0))
    )


def see_judges_tmp():
    return open(FACTS["tmp_file"]).read()


def see_judge():
    return open(f"/proc/{FACTS['judge_pid']}/cmdline").read()


def read_judge_environ():
    return open(f"/proc/{FACTS['judge_pid']}/environ").read()[:20]


def read_judge_memory():
    with open(f"/proc/{FACTS['judge_pid']}/mem", "rb"):
        return "opened"


def trace_judge():
    return trace(FACTS["judge_pid"])


def trace(pid):
    checked(LIBC.ptrace(16, ctypes.c_long(pid), 0, 0))  # PTRACE_ATTACH
    os.waitpid(pid, 0) if pid != FACTS["judge_pid"] else time.sleep(0.1)
    checked(LIBC.ptrace(17, ctypes.c_long(pid), 0, 0))
    return "traced"


def trace_own_child():
    child = subprocess.Popen(["/bin/sleep", "5"])
    try:
        return trace(child.pid)
    finally:
        child.kill()


def signal_judge():
    return signal_process(FACTS["judge_pid"])


def signal_process(pid):
    os.kill(pid, 0)
    os.kill(pid, signal.SIGURG)  # ignored by default
    return "sent"


def see_other_worker():
    return open(f"/proc/{FACTS['other_pid']}/cmdline").read()


def signal_other_worker():
    return signal_process(FACTS["other_pid"])


def connect_loopback():
    with socket.create_connection(("127.0.0.1", FACTS["tcp_port"]), timeout=5):
        return "connected"


def send_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return str(sock.sendto(b"probe", ("127.0.0.1", FACTS["udp_port"])))


def connect_abstract():
    return connect_unix("\0" + FACTS["abstract"])


def connect_path():
    return connect_unix(FACTS["socket_path"])


def connect_unix(address):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(address)
        return "connected"


def attach_shared_memory():
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(FACTS["shm_id"], None, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "attached"


def inherited_variable():
    with open("/proc/self/environ", "rb") as file:  # what it was executed with, or what it was forked from
        at_first = {entry.partition(b"=")[0].decode() for entry in file.read().split(b"\0") if entry}
    at_first.discard("PYTHONPATH")  # a warm process has one of its own
    leaked = sorted((set(os.environ) | at_first) & set(FACTS["variables"]))
    return found(leaked)


def inherited_memory():
    """Look through all of this process's memory for a text that the judge has, and for one that is there."""
    pattern = {name: as_pattern(FACTS[f"{name}_reversed"][::-1]) for name in ("secret", "control")}
    FACTS["control"] = FACTS["control_reversed"][::-1]
    seen = {name: 0 for name in pattern}
    try:
        for content in readable_memory():
            for name in pattern:
                seen[name] += len(pattern[name].findall(content))
    except OSError as error:  # that would be no answer
        raise AssertionError(f"it cannot look into its own memory: {error}") from None
    assert seen["control"], "the search does not find what is there"
    return found(["secret"] * seen["secret"])


def as_pattern(text):
    """Matches the text without having it anywhere in memory."""
    return re.compile("".join(f"[{letter}]" for letter in text).encode())


def readable_memory():
    with open("/proc/self/maps") as file:
        areas = [line.split() for line in file]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for area in areas:
            start, end = (int(address, 16) for address in area[0].split("-"))
            if not area[1].startswith("r") or "[v" in area[-1]:
                continue
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except (OSError, OverflowError):
                continue
            yield content


def inherited_descriptor():
    fds = []
    for fd in range(4096):
        try:
            os.fstat(fd)
        except OSError:
            continue
        fds.append(fd)
    return found([fd for fd in fds if fd not in (0, 1, 2, 3)])


def supplementary_groups():
    return found([group for group in os.getgroups() if group != os.getgid()])


def found(things):
    if not things:
        raise OSError(errno.ENOENT, "nothing found")
    return str(things)


def new_namespace():
    """In a child: what comes after it should not run with what it gained."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if LIBC.unshare(0x10000000) == 0 else ctypes.get_errno())
    error = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if error:
        raise OSError(error, os.strerror(error))
    return "made"


def hold_capabilities():
    with open("/proc/self/status") as file:
        sets = dict(line.split(":\t") for line in file if line.startswith("Cap"))
    return found([name for name, value in sets.items() if name != "CapBnd" and int(value, 16)])


def become_root():
    """Run the set-user-ID program of the tests: where it is honoured, its effective uid is its owner's."""
    before = os.geteuid()
    after = int(subprocess.check_output([FACTS["setuid_program"], "-u"]))
    return found([after] if after != before else [])


def raise_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))
    return "raised"


def exceed_processes():
    children = []
    try:
        for _ in range(FACTS["processes"] + 50):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
        return f"{len(children)} processes"
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def exceed_memory():
    try:
        return str(len(bytearray(FACTS["address_space"])))
    except MemoryError:
        raise OSError(errno.ENOMEM, "no memory") from None


def exceed_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(os.path.join(os.environ["TMPDIR"], "long"), "wb") as file:
        file.seek(FACTS["file_size"])
        return str(file.write(b"xx"))


def dump_core():
    pid = os.fork()
    if pid == 0:
        os.chdir(os.environ["TMPDIR"])
        os.kill(os.getpid(), signal.SIGSEGV)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    cores = [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("core")]
    return found(cores + ["core flag"] * os.WCOREDUMP(status))


def everything(names):
    """Each probe's outcome. Probes that could disturb the ones after them come last in the table."""
    results = {}
    for name in names:
        try:
            results[name] = {"outcome": "allowed", "detail": globals()[name]()}
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            results[name] = {"outcome": "denied", "detail": f"{type(error).__name__}: {error}"}
    return results


def facts():
    """What the worker is, for tests that look at it from outside."""
    return {
        "uid": os.getuid(),
        "environment": dict(os.environ),
        "cores": sorted(os.sched_getaffinity(0)),
        "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
        "status": status(),
        "own_session": os.getsid(0) == os.getpid() == os.getpgrp(),
        "descriptors": [fd for fd in range(4096) if is_open(fd)],
        "umask": os.umask(0),
        "working_directory": os.getcwd(),
        "oom_score_adj": open("/proc/self/oom_score_adj").read(),
        "python": [list(sys.flags), sys.argv, sys.orig_argv, sys.path, sys.executable, sys.dont_write_bytecode],
        "main": [sys.modules["__main__"].__dict__.get("__file__"), __name__],
        "handlers": {
            s.name: repr(signal.getsignal(s)) for s in signal.valid_signals() if isinstance(s, signal.Signals)
        },
        "frames": frames(),
        "root": listing("/"),
        "pids": [name for name in listing("/proc") or () if name.isdigit()],
    }


def status():
    """What the kernel says of this process, as far as it does not count."""
    names = ("Groups", "Threads", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
             "SigBlk", "SigIgn", "SigCgt", "ShdPnd", "CoreDumping", "TracerPid")  # fmt: skip
    with open("/proc/self/status") as file:
        return {line.partition(":")[0]: line.split()[1:] for line in file if line.startswith(names)}


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def frames():
    """Names of the functions that are being executed, and of what they hold."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        found.append([frame.f_code.co_name, sorted(frame.f_locals) if frame.f_code.co_name != "<module>" else []])
        frame = frame.f_back
    return found


def listing(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None


def daemon():
    """Leave a daemon (two forks, new session) that touches a file ten times a second, and stay or go."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for _ in range(600):
                with open(FACTS["heartbeat"], "a") as file:
                    file.write(".")
                time.sleep(0.05)
        os._exit(0)
    while not os.path.exists(FACTS["heartbeat"]):
        time.sleep(0.01)
    print("daemon runs", flush=True)
    time.sleep(FACTS["stay_s"])


def flood():
    line = b"x" * 65535 + b"\n"
    for _ in range(1600):  # 100 MiB
        os.write(1, line)
    time.sleep(60)


def cuda():
    """Start CUDA, run a kernel of torch's and, where there is nvcc, one compiled here."""
    started = time.perf_counter()
    import torch

    imported = time.perf_counter()
    total = torch.ones(4096, device="cuda").sum().item()
    ready = time.perf_counter()
    result = {"sum": total, "import_s": imported - started, "cuda_s": ready - imported}
    compiler = FACTS["nvcc"]
    if compiler:
        os.chdir(os.environ["TMPDIR"])
        with open("a.cu", "w") as file:
            file.write(CUDA_PROGRAM)
        subprocess.check_call([compiler, "-o", "a", "a.cu"])
        result["nvcc"] = subprocess.check_output(["./a"], text=True).strip()
    return result


def cuda_buffer():
    """Map the judge's device buffer by the descriptor that comes over the channel, and write into it."""
    import torch
    from cuda.bindings import driver

    from kbverified.sandbox import Channel

    channel = Channel.from_environment()
    torch.zeros(1, device="cuda")
    channel.send({"ready": True})
    message, (fd,) = channel.receive(60)
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    handle = succeeded(driver.cuMemImportFromShareableHandle(fd, kind))
    address = mapped(driver, handle, message["bytes"])
    succeeded(driver.cuMemsetD8(address, 7, message["bytes"]))
    succeeded(driver.cuCtxSynchronize())
    channel.send({"written": True})


def mapped(driver, handle, size):
    address = succeeded(driver.cuMemAddressReserve(size, 0, 0, 0))
    succeeded(driver.cuMemMap(address, size, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = 0
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    succeeded(driver.cuMemSetAccess(address, size, [access], 1))
    return address


def succeeded(answer):
    error, *results = answer
    assert int(error) == 0, error
    return results[0] if results else None


CUDA_PROGRAM = """
#include <cstdio>
__global__ void twice(int *x) { *x *= 2; }
int main() {
    int *device, host = 4;
    cudaMalloc(&device, 4);
    cudaMemcpy(device, &host, 4, cudaMemcpyHostToDevice);
    twice<<<1, 1>>>(device);
    cudaMemcpy(&host, device, 4, cudaMemcpyDeviceToHost);
    std::printf("%d %s\\n", host, cudaGetErrorString(cudaGetLastError()));
}
"""


def fork_bomb():
    print("bomb", flush=True)
    while True:
        try:
            os.fork()
        except OSError:
            pass


if __name__ == "__main__":
    if sys.argv[1] == "everything":
        print(json.dumps(everything(sys.argv[2:])))
    else:
        result = globals()[sys.argv[1]]()
        if result is not None:
            print(json.dumps(result))
