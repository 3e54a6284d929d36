"""One measured job per device at a time: an flock on a file per device uuid, whatever ``--cores`` says.

Snakemake's ``gpu`` resource bounds how many jobs are submitted; the lease decides which device each gets. The
kernel releases it when the job's process dies. Torch-free: a job waits for its device before it touches CUDA.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

UNTOUCHED_DRIVER = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""The environment of a process that learns only later which GPU it gets.

The driver reads CUDA_VISIBLE_DEVICES once, when it is first asked anything. ``torch.cuda.is_available()`` asks it, and
torch does so at the import of its extension builder and whenever fake tensors are made; with this it asks NVML, which
fixes nothing. Whoever opens a GPU checks all the same that it is the leased one (devices/cuda.py).
"""

_QUERY = "uuid,name,driver_version,memory.total,compute_cap,mig.mode.current"
# Lines of nvidia-smi -L: a GPU, and below it its MIG instances where it is divided.
_GPU_LINE = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_MIG_LINE = re.compile(r"\s+MIG (\S+)\s.*\(UUID: (MIG-[^)]+)\)")


class NoDevice(RuntimeError):
    """There is no such device here. An infrastructure fault, never a verdict."""


@dataclass(frozen=True)
class Gpu:
    """What one job may hold: a GPU, or one MIG instance of a GPU that is divided.

    An instance has its own name, so that its records are never taken for the whole GPU's; its memory is its profile's
    nominal one.
    """

    uuid: str
    name: str
    driver: str
    memory_mib: int
    compute_capability: str
    divided: bool = False
    """In MIG mode: not to be used as a whole."""


@functools.cache
def installed_gpus() -> list[Gpu]:
    """Every GPU of this machine as nvidia-smi lists it; empty where there is none."""
    rows = [line.split(",") for line in _nvidia_smi(f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits")]
    cells = ([cell.strip() for cell in row] for row in rows if len(row) == 6)
    return [Gpu(row[0], row[1], row[2], int(float(row[3])), row[4], row[5] == "Enabled") for row in cells]


@functools.cache
def mig_instances() -> dict[str, list[Gpu]]:
    """The MIG instances of each divided GPU, by its uuid. Where none is, nvidia-smi is not asked a second time."""
    divided = {gpu.uuid: gpu for gpu in installed_gpus() if gpu.divided}
    found: dict[str, list[Gpu]] = {uuid: [] for uuid in divided}
    parent = ""
    for line in _nvidia_smi("-L") if divided else ():
        if whole := _GPU_LINE.match(line):
            parent = whole[1]
        elif (part := _MIG_LINE.match(line)) and parent in divided:
            gpu, profile = divided[parent], part[1]
            memory = re.search(r"(\d+)gb", profile)
            mib = int(memory[1]) << 10 if memory else 0
            instance = replace(gpu, uuid=part[2], name=f"{gpu.name} MIG {profile}", memory_mib=mib, divided=False)
            found[parent].append(instance)
    return found


def _nvidia_smi(*arguments: str) -> list[str]:
    """The lines it prints; none where it is missing or fails."""
    try:
        done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return []
    return [] if done.returncode else [line for line in done.stdout.splitlines() if line.strip()]


def visible_gpus() -> list[Gpu]:
    """The devices that this process may use: CUDA_VISIBLE_DEVICES where it is set, else all.

    Read as CUDA reads it: indices, uuids or unambiguous beginnings of uuids, of GPUs and of MIG instances; what comes
    after the first word that names nothing is not visible. A divided GPU stands for all its instances, of which CUDA
    itself would show one: a job is told the uuid of the one that it leases. Indices are nvidia-smi's, which are
    SLURM's; CUDA's own are the same with CUDA_DEVICE_ORDER=PCI_BUS_ID or GPUs of one model.
    """
    return _devices(os.environ.get("CUDA_VISIBLE_DEVICES"))


def every_gpu() -> list[Gpu]:
    """The devices of this machine that somebody may hold, whether this process may or not."""
    return _devices(None)


def _devices(chosen: str | None) -> list[Gpu]:
    gpus = installed_gpus()
    parts = mig_instances()
    words = [gpu.uuid for gpu in gpus] if chosen is None else [word.strip() for word in chosen.split(",")]
    everything = {gpu.uuid: gpu for gpu in [*gpus, *(part for some in parts.values() for part in some)]}
    visible: dict[str, Gpu] = {}
    for word in words:
        if word.isdecimal() and word.isascii():
            named = gpus[int(word) : int(word) + 1]
        else:
            named = [gpu for uuid, gpu in everything.items() if word and uuid.startswith(word)]
        if len(named) != 1:
            break
        for gpu in parts.get(named[0].uuid, named):
            visible.setdefault(gpu.uuid, gpu)
    return list(visible.values())


class Lease:
    """A held device. Released by ``close`` or by the death of the process. Without ``fd`` nobody is kept off it."""

    def __init__(self, device: str, gpu: Gpu | None, fd: int | None, waited_s: float):
        self.device = device
        self.gpu = gpu
        self.waited_s = waited_s
        self.held_s = 0.0
        self._since: float | None = time.monotonic()
        self._fd = fd
        self.exclusive = fd is not None

    def close(self) -> None:
        if self._since is not None:
            self.held_s, self._since = time.monotonic() - self._since, None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lease_directory() -> Path:
    return Path(os.environ.get("KBV_LEASE_DIR", "/tmp/kbverified-leases"))


def require(kind: str) -> None:
    """Raises NoDevice where there is no device of a kind: asked before anything is imported or started for one."""
    if kind != "cpu" and not visible_gpus():
        raise NoDevice(
            "device cuda was asked for, but no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, "
            "or set device: cpu in config/config.yaml"
        )


def leave_driver_untouched() -> None:
    """Make this process one of those; to be called before it imports torch."""
    os.environ.update(UNTOUCHED_DRIVER)


def acquire(
    kind: str,
    timeout_s: float = 24 * 3600,
    waiting: Callable[[str], None] | None = None,
    place: int | None = None,
) -> Lease:
    """Wait for a free device of a kind and hold it. Those who wait for the same devices are served in turn.

    ``place``: the one of the visible devices that it has to be (gpu_choice.py); None for any.

    Raises NoDevice where there is none, TimeoutError when none gets free within timeout_s at the head of the queue.
    """
    require(kind)
    gpus: list[Gpu | None] = [None] if kind == "cpu" else list(visible_gpus())
    places = list(range(len(gpus))) if place is None else [place]
    folder = made_directory()
    names = [gpu.uuid if gpu else f"cpu-{os.getuid()}" for gpu in gpus]
    start = time.monotonic()
    # Whoever heads the queue takes the next device that gets free; the others wait for the head's place. Without it
    # whoever happens to look first wins, and with many waiting some wait for minutes.
    queue = _join_queue(folder / f"queue-{_digest([names[one] for one in places])}.lock", kind, waiting)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            for free in places:
                fd = try_lock(folder / f"{names[free]}.lock")
                if fd is not None:
                    waited_s = time.monotonic() - start
                    return Lease(names[free], gpus[free], fd, waited_s)
            _pause(deadline, kind, folder)
    finally:
        os.close(queue)


def chosen_place(same_for: str, count: int) -> int:
    """Which of ``count`` devices those get who name the same ``same_for``."""
    return int(_digest([same_for]), 16) % count


def _join_queue(path: Path, kind: str, waiting: Callable[[str], None] | None) -> int:
    """Become the head of the queue, in the order of arrival, which the kernel keeps; the descriptor that holds it."""
    fd = try_lock(path)
    if fd is not None:
        return fd
    if waiting is not None:
        waiting(f"waiting for a {kind} device")
    return wait_for_lock(path)


def _open_lock(path: Path) -> int:
    """A lock needs no right to write: another user's file does. Asking to create it only where it is missing keeps
    the kernel's protection of sticky folders (fs.protected_regular) out of it.

    Anybody may put something there. A link is not followed, and a FIFO is not waited for: raises NoDevice.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CREAT, 0o644)
        if os.fstat(fd).st_uid == os.getuid():
            os.fchmod(fd, 0o644)  # whatever the umask: others have to be able to open it
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise
        raise _no_lock(path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _no_lock(path)
    return fd


def _no_lock(path: Path) -> NoDevice:
    return NoDevice(f"{path} is no plain file, and no lock: see who put it there and remove it, or set KBV_LEASE_DIR")


def made_directory() -> Path:
    """The folder of all locks, in which every user of the machine may put some, and none may remove another's."""
    folder = lease_directory()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return folder
    os.chmod(folder, 0o1777)
    return folder


def try_lock(path: Path) -> int | None:
    """The descriptor that holds a lock until it is closed, by the death of this process at the latest; None where
    somebody else holds it."""
    fd = _open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def wait_for_lock(path: Path) -> int:
    """As ``try_lock``, after those who came before."""
    fd = _open_lock(path)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def _pause(deadline: float, kind: str, folder: Path) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"no {kind} device got free in time; see who holds the locks in {folder}")
    time.sleep(0.01)


def _digest(names: list[str]) -> str:
    return hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:16]
