"""What a worker sees of the file system: system folders, the interpreter, this package, and what was asked for."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from kbverified.sandbox.request import SandboxError, SpawnRequest

# /opt and /usr/local hold CUDA and its driver's libraries on many machines; CUDA reads /sys when it starts.
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sys")
SYSTEM_FILES = (
    "/etc/alternatives",  # cc and c++ are links into it
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/OpenCL",
    "/etc/os-release",
)
_NEVER = ("/", "/proc", "/dev", "/tmp", "/etc", "/root", "/home", "/dev/shm")
"""Whole folders that would give everything away, or cover what the worker has of its own there."""


@dataclass(frozen=True)
class View:
    """Real paths, and the other names (links) by which they are known."""

    read: list[str]
    write: list[str]
    devices: list[str]
    links: list[tuple[str, str]]


def of(request: SpawnRequest) -> View:
    """The view of one worker. Raises SandboxError for a path that is missing or gives too much away."""
    if not os.path.isabs(request.argv[0]):
        raise SandboxError(f"argv[0] {request.argv[0]!r} is no absolute path: name the program by its whole path")
    asked = [(path, "readable") for path in request.readable] + [(path, "writable") for path in request.writable]
    for path, what in asked:
        _check(Path(path), what)
    links: dict[str, str] = {}
    read = [_real(path, links) for path in (*_existing(SYSTEM_FOLDERS), *_existing(SYSTEM_FILES))]
    read += [_real(path, links) for path in interpreter_paths()]
    read += [_real(os.path.abspath(path), links) for path in request.readable]
    write = [_real(os.path.abspath(path), links) for path in request.writable]
    return View(
        read=_without_covered([path for path in dict.fromkeys(read) if path not in write]),
        write=list(dict.fromkeys(write)),
        devices=[_device(path) for path in request.devices],
        links=sorted(links.items()),
    )


def interpreter_paths() -> list[str]:
    """Where this interpreter and what it can import lie.

    Of sys.path, the working directory and the folders above it are left out (``python -m`` puts it there): the
    project's results and other candidates are in it.
    """
    private = {os.getcwd(), *map(str, Path.cwd().parents), os.path.expanduser("~"), *_NEVER}
    paths = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    paths.append(str(Path(__file__).resolve().parents[2]))  # the folder from which this package is imported
    paths += [path for path in sys.path if os.path.isabs(path) and os.path.realpath(path) not in private]
    # A venv's interpreter may reach the real one over several links, each in a folder of its own.
    hop = sys.executable
    while os.path.islink(hop):
        paths.append(hop)
        hop = os.path.normpath(os.path.join(os.path.dirname(hop), os.readlink(hop)))
    paths.append(hop)
    return [path for path in _existing(dict.fromkeys(paths)) if path not in _NEVER]


PASSED_ON = ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""What of its own environment a judge passes on to workers, and a client to an evaluator that will fork them."""


def import_path() -> str:
    """PYTHONPATH for a process that is to import what this one can.

    Not this process's working directory, which ``python -m`` puts there: a checkout is no place for modules.
    """
    return os.pathsep.join(path for path in sys.path if path and path != os.getcwd() and os.path.isdir(path))


def nvidia_nodes() -> tuple[str, ...]:
    """The NVIDIA device nodes of this machine, for SpawnRequest.devices; empty without a driver.

    All of the machine's GPUs are among them: CUDA_VISIBLE_DEVICES in the worker's environment chooses.
    """
    names = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
    paths = [f"/dev/{name}" for name in names]
    for folder in [path for path in paths if os.path.isdir(path)]:
        paths.remove(folder)
        paths += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return tuple(path for path in paths if stat.S_ISCHR(os.stat(path).st_mode))


def _existing(paths: object) -> list[str]:
    return [path for path in paths if os.path.exists(path)]  # type: ignore[attr-defined]


def _real(path: str, links: dict[str, str]) -> str:
    real = os.path.realpath(path)
    if real != path:
        links[path] = real
    return real


def _check(path: Path, what: str) -> None:
    if not path.exists():
        raise SandboxError(f"{what} path {path} does not exist: make it before the worker starts")
    if os.path.realpath(path) in _NEVER:
        raise SandboxError(f"{what} path {path} would give a worker too much: name the folder that it needs")


def _device(path: str) -> str:
    real = os.path.realpath(path)
    if not real.startswith("/dev/") or not os.path.exists(real):
        raise SandboxError(f"device {path} does not exist under /dev")
    mode = os.stat(real).st_mode
    if not stat.S_ISCHR(mode):
        raise SandboxError(f"device {path} is no character device: disks are not given to workers")
    return real


def _without_covered(paths: list[str]) -> list[str]:
    """Leave out what lies below another path of the list."""
    kept = set(paths)
    return [path for path in paths if not any(str(parent) in kept for parent in Path(path).parents)]
