"""A small judge for these tests, in a process of its own so that it can run as another user.

Executed as ``python judge.py COMMAND < request.json``; prints one JSON object. Standard library only.
"""

import ctypes
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import warm
from probes import mapped, succeeded

from kbverified.sandbox import (
    Limits,
    SandboxUnavailable,
    SpawnRequest,
    import_path,
    linux,
    nvidia_nodes,
    reachable_level,
    seccomp,
    spawn,
    syscalls,
)
from kbverified.sandbox.operations import OPERATIONS

PROBES = Path(__file__).with_name("probes.py")
OUTSIDE = ("flood", "outlive_kill", "outlive_exit", "outlive_judge")
LIMITS = Limits(cpu_s=60, file_size_bytes=1 << 20, processes=60, address_space_bytes=1 << 30)


def request(task, probe, **changes):
    settings = {
        "argv": [sys.executable, "-P", str(PROBES), *probe],
        "forkable": "argv" not in changes,
        "level": task["level"],
        "mechanism": task["mechanism"],
        "pid_namespace": task["pid_namespace"],
        "readable": (PROBES,),
        "limits": LIMITS,
        "env": {"PROBE": json.dumps(changes.pop("facts", {}))},
    }
    return SpawnRequest(**{**settings, **changes})


def finish(worker, timeout_s=60):
    status = worker.wait(timeout_s)
    if status is None:
        worker.kill()
        raise SystemExit(f"the probe hangs: {worker.output_tail()}")
    return status


def reach(task):
    with spawn(request(task, ["facts"])) as worker:
        status = finish(worker)
        return {"level": worker.level, "mechanism": worker.mechanism, "uid": worker.uid, "ok": status.ok,
                "output": worker.output_tail()}  # fmt: skip


def rows(task):
    """The outcome of every operation that a probe can try by itself."""
    base = Path(tempfile.mkdtemp(dir=task["base"]))
    facts = make_targets(task, base)
    names = [operation.name for operation in OPERATIONS if operation.name not in OUTSIDE]
    with spawn(request(task, [], argv=["/bin/sleep", "60"])) as other:
        facts["other_pid"] = other.pid
        with spawn(
            request(
                task,
                ["everything", *names],
                facts=facts,
                readable=(PROBES, base / "readable", Path(task["setuid_program"])),
            )
        ) as worker:
            status = finish(worker)
            assert status.ok, f"{status}: {worker.output_tail()}"
            results = json.loads(worker.output_tail())
    shutil.rmtree(base)
    os.unlink(facts["tmp_file"])
    return results


SECRET = secrets.token_hex(20)  # in this process's memory before a worker is started
os.environ["SECRET"] = SECRET

KEPT = []  # listeners and such, for the life of this process


def make_targets(task, base):
    """What the probes aim at."""
    secret = base / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    for name, mode in (("other", 0o755), ("outside", 0o777), ("readable", 0o777)):
        (base / name).mkdir()
        (base / name).chmod(mode)
    (base / "other/0.py").write_text("answer")
    (base / "readable/module.py").write_text("code")
    base.chmod(0o755)
    handle, tmp_file = tempfile.mkstemp(dir="/tmp")
    os.fchmod(handle, 0o644)
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0kbverified-{os.getpid()}")
    abstract.listen()
    path = socket.socket(socket.AF_UNIX)
    path.bind(str(base / "outside/socket"))
    os.chmod(base / "outside/socket", 0o777)
    path.listen()
    shm_id = ctypes.CDLL(None).shmget(0, 4096, 0o1666)
    assert shm_id >= 0
    leak = open(secret)  # an inheritable descriptor, as a careless library would leave it
    os.set_inheritable(leak.fileno(), True)
    KEPT.extend((tcp, udp, abstract, path, leak, SharedMemory(shm_id)))
    return {
        "judge_file": str(secret),
        "other_file": str(base / "other/0.py"),
        "outside": str(base / "outside"),
        "readable": str(base / "readable"),
        "readable_file": str(base / "readable/module.py"),
        "tmp_file": tmp_file,
        "judge_pid": os.getpid(),
        "tcp_port": tcp.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "abstract": f"kbverified-{os.getpid()}",
        "socket_path": str(base / "outside/socket"),
        "shm_id": shm_id,
        "variables": [name for name in os.environ if name not in ("PATH", "LANG", "HOME", "TMPDIR", "USER", "LOGNAME")],
        "setuid_program": task["setuid_program"],
        # Searched for in the worker's memory; so that the searching does not bring it there, it comes reversed.
        "secret_reversed": SECRET[::-1],
        "control_reversed": secrets.token_hex(20),
        "processes": LIMITS.processes,
        "address_space": LIMITS.address_space_bytes,
        "file_size": LIMITS.file_size_bytes,
    }


class SharedMemory:
    """Removes the segment with this process."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        ctypes.CDLL(None).shmctl(self.number, 0, None)


def end(task):
    """Whether a daemon is dead after the worker's end: by kill(), or by its own exit."""
    folder = Path(tempfile.mkdtemp(dir=task["base"]))
    facts = {"heartbeat": str(folder / "beat"), "stay_s": 60 if task["how"] == "kill" else 0}
    with spawn(request(task, ["daemon"], facts=facts, writable=(folder,))) as worker:
        if task["how"] == "kill":
            wait_for_output(worker, "daemon runs")
            worker.kill()
            worker.kill()
        else:
            assert finish(worker).ok, worker.output_tail()
        return {"outcome": "allowed" if beats(folder / "beat") else "denied", "status": str(worker.poll())}


def beats(path):
    before = path.stat().st_size
    time.sleep(0.3)
    return path.stat().st_size > before


def wait_for_output(worker, text, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while text not in worker.output_tail():
        assert time.monotonic() < deadline and worker.poll() is None, f"{worker}: {worker.output_tail()}"
        time.sleep(0.01)


def hold(task):
    """Start a worker with a daemon, say so, and wait to be killed."""
    facts = {"heartbeat": task["heartbeat"], "stay_s": 60}
    worker = spawn(request(task, ["daemon"], facts=facts, writable=(Path(task["heartbeat"]).parent,)))
    wait_for_output(worker, "daemon runs")
    print(json.dumps({"worker": worker.pid}), flush=True)
    time.sleep(60)


def flood(task):
    started = time.monotonic()
    with spawn(request(task, ["flood"])) as worker:
        status = finish(worker)
        return {
            "flooded": worker.flooded,
            "bytes": worker.output_bytes,
            "tail": len(worker.output_tail()),
            "signal": status.signal,
            "seconds": time.monotonic() - started,
        }


def bomb(task):
    """A fork bomb runs for a moment, and then the family has to be dead in reasonable time."""
    with spawn(request(task, ["fork_bomb"])) as worker:
        wait_for_output(worker, "bomb")
        time.sleep(0.5)
        started = time.monotonic()
        status = worker.kill()
        return {"kill_s": time.monotonic() - started, "signal": status.signal, "threads": threading.active_count()}


def cuda_request(task, probe):
    facts = {"nvcc": shutil.which("nvcc", path="/usr/local/cuda/bin:/usr/local/bin:/usr/bin")}
    env = {
        "PROBE": json.dumps(facts),
        "PATH": "/usr/local/cuda/bin:/usr/bin:/bin",
        "PYTHONPATH": os.environ["PYTHONPATH"],
    }
    site = [Path(path) for path in sys.path if path.endswith("-packages")]
    return request(task, [probe], env=env, limits=Limits(), devices=nvidia_nodes(), readable=(PROBES, *site))


def cuda(task):
    with spawn(cuda_request(task, "cuda")) as worker:
        status = finish(worker, 110)
        return {"ok": status.ok, "status": str(status), "output": worker.output_tail()}


def cuda_buffer(task):
    """A worker writes into memory of the judge's, which it gets as a file descriptor."""
    with spawn(cuda_request(task, "cuda_buffer")) as worker:
        import torch
        from cuda.bindings import driver

        torch.zeros(1, device="cuda")
        size = 2 << 20
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        properties.requestedHandleTypes = kind
        handle = succeeded(driver.cuMemCreate(size, properties, 0))
        address = mapped(driver, handle, size)
        try:
            assert worker.channel.receive(100)[0] == {"ready": True}
            worker.channel.send(
                {"bytes": size}, fds=[int(succeeded(driver.cuMemExportToShareableHandle(handle, kind, 0)))]
            )
            assert worker.channel.receive(60)[0] == {"written": True}
        except Exception as error:
            return {"ok": False, "error": repr(error), "output": worker.output_tail()}
        content = bytearray(size)
        succeeded(driver.cuMemcpyDtoH(content, address, size))
        return {"ok": content == bytes([7]) * size}


def facts(task):
    changes = {"cores": frozenset(task["cores"])} if "cores" in task else {}
    if task.get("import_path"):  # as the judges of candidates give it to their workers
        changes["env"] = {"PROBE": "{}", "PYTHONPATH": import_path()}
    with spawn(request(task, ["facts"], **changes)) as worker:
        assert finish(worker).ok, worker.output_tail()
        return json.loads(worker.output_tail())


def handicapped(task):
    """What comes of each level where the machine denies namespaces (and Landlock, if asked): a real filter does."""
    denied = {"landlock_create_ruleset": (444, 444)} if task["without_landlock"] else {}
    syscalls.DENIED.update(denied)
    linux.forbid_new_privileges()
    seccomp.install(own_namespaces=True, own_uid=True)
    answers = {}
    for level in ("auto", "full", "user", "none"):
        try:
            with spawn(SpawnRequest([sys.executable, "-c", ""], level, name="fallback")) as worker:
                assert finish(worker).ok, worker.output_tail()
                answers[level] = [worker.level, worker.mechanism]
        except SandboxUnavailable as error:
            answers[level] = str(error)
    return {**answers, "reachable": reachable_level()}


if __name__ == "__main__":
    task = json.load(sys.stdin)
    if task.get("forked"):
        warm.start(*(["torch"] if sys.argv[1].startswith("cuda") else []))
    try:
        answer = globals()[sys.argv[1]](task)
    except SandboxUnavailable as error:
        answer = {"unavailable": str(error)}
    print(json.dumps(answer))
