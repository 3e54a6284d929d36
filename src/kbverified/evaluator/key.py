"""Which evaluator may take a command: one that was started for the same user, machine share, environment and code.

Whatever could make a forked judge differ from a fresh one is in the key, so that an edit of the code, another
allocation or other visible devices never meet an old process: they start one of their own. Torch-free.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

from kbverified import import_environment
from kbverified.import_environment import THREAD_COUNTS
from kbverified.lease import UNTOUCHED_DRIVER
from kbverified.sandbox import PASSED_ON, import_path

PACKAGE_ROOT = Path(__file__).parents[1]
_VERSION = 1

_OF_ONE_COMMAND = ("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST", *THREAD_COUNTS)
"""Variables that differ from command to command and are no reason for another evaluator."""


def against(environ: Mapping[str, str]) -> str | None:
    """Why a command with this environment cannot be forked and be the same; None where it can.

    The evaluator starts under a worker's environment, a fresh judge under its own. What torch reads at import no judge
    has (import_environment.py); what the loader and the interpreter were told before is another matter.
    """
    names = import_environment.read_at_start(environ) + import_environment.read_at_import(environ)
    return f"{names[0]} is set, which is read when a process starts or imports torch" if names else None


def key(environ: Mapping[str, str]) -> str:
    """Name of the evaluator for a command of this process with this environment: 32 hexadecimal digits."""
    parts = {
        "version": _VERSION,
        "interpreter": [sys.executable, sys.version, sys.flags.optimize],
        "import path": import_path(),
        "torch": _torch(),
        "source": source_digest(),
        "environment": {k: v for k, v in sorted(environ.items()) if k not in _OF_ONE_COMMAND},
        "standing": _standing(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The evaluator's own environment: a worker's, as far as imports read it. No secret of the client's is in it.

    No GPU is visible: a library that asked for one while it is imported would start the CUDA driver, whose state no
    fork survives and which reads CUDA_VISIBLE_DEVICES once.
    """
    return {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": import_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "",
        **UNTOUCHED_DRIVER,
        **{name: environ[name] for name in PASSED_ON if name in environ},
    }


def source_digest() -> str:
    """Sha256 (hex) over every file of this package as it is on disk."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE_ROOT.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            total.update(f"{path.relative_to(PACKAGE_ROOT)}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _torch() -> list[object]:
    """Version of torch, and which installation of it: found without importing it."""
    from kbverified.compilation.toolchain import torch_folder

    folder = torch_folder()
    stamp = (folder / "version.py").stat().st_mtime_ns if folder is not None else None
    return [importlib.metadata.version("torch"), str(folder), stamp]


def _standing() -> list[object]:
    """What a process is allowed and where it belongs: user, cgroup (a SLURM job's), namespaces, limits, priority.

    A child of the evaluator has the evaluator's, whatever the client's are.
    """
    fields = ("Uid:", "Gid:", "Groups:", "NoNewPrivs:", "Seccomp:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:")
    status = [line for line in _lines("/proc/self/status") if line.startswith(fields)]
    kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    namespaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in kinds]
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    limits = [(name, resource.getrlimit(getattr(resource, name))) for name in names]
    priority = [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), *_lines("/proc/self/oom_score_adj")]
    return [status, _lines("/proc/self/cgroup"), namespaces, limits, priority]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
