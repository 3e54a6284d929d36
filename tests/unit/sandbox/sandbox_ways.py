"""The ways to run a judge in these tests: as whom, and at which level its workers are to run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

NOBODY = 65534


@dataclass(frozen=True)
class Way:
    """One mechanism, and as whom the judge runs: root, or whoever runs the tests (nobody, where that is root).

    ``forked``: its workers are forked from a warm process instead of executed.
    """

    level: str
    mechanism: str
    as_root: bool
    pid_namespace: bool = True
    forked: bool = False

    def __str__(self) -> str:
        without = "-without-pid-namespace" if not self.pid_namespace else ""
        as_root = "-as-root" if self.as_root and self.level != "full" else ""
        return f"{self.mechanism}{without}{as_root}{'-forked' if self.forked else ''}"


EXECUTED = (
    Way("full", "root-namespaces", True),
    Way("full", "root-namespaces", True, pid_namespace=False),
    Way("user", "user-namespaces", False),
    Way("user", "landlock", False),
    Way("user", "landlock", True),
    Way("none", "bare", False),
)
WAYS = (*EXECUTED, *(replace(way, forked=True) for way in EXECUTED))


class Judge:
    """Runs tests/unit/sandbox/judge.py as the user that a way asks for."""

    def __init__(self, way: Way, stage: Path, python: str) -> None:
        self.way = way
        self.base = stage / "work"
        self._python = python
        self._stage = stage

    def start(self, command: str, **task: object) -> subprocess.Popen[str]:
        identity = {}
        if os.geteuid() == 0 and not self.way.as_root:
            identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        process = subprocess.Popen(
            [self._python, str(self._stage / "judge.py"), command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.base,
            # What must not reach a worker.
            env={"PYTHONPATH": str(self._stage / "src"), "OPENAI_API_KEY": "x", "SLURM_JOB_ID": "1", "SNAKEMAKE": "1"},
            **identity,  # type: ignore[arg-type]
        )
        assert process.stdin is not None
        described = {
            "level": self.way.level,
            "mechanism": self.way.mechanism,
            "pid_namespace": self.way.pid_namespace,
            "forked": self.way.forked,
            "base": str(self.base),
            "setuid_program": str(self._stage / "id"),
            **task,
        }
        process.stdin.write(json.dumps(described))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, command: str, **task: object) -> dict:
        process = self.start(command, **task)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return json.loads(output)


def python_for(as_root: bool, own_uid_workers: bool) -> str | None:
    """An interpreter that the judge's user (or its workers' uid) may execute: the tests' own may be under /root."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if not as_root or own_uid_workers else {}
        try:
            check = subprocess.run(
                [python, "-c", "import ctypes, sys; sys.exit(sys.version_info < (3, 11))"],
                env={},
                capture_output=True,
                **(identity if os.geteuid() == 0 else {}),  # type: ignore[arg-type]
            )
        except OSError:
            continue
        if check.returncode == 0:
            return python
    return None


_DENIED_BY_THE_MACHINE = (
    r": preparation: |: (namespaces|mounts|pid namespace): .*(not permitted|denied|No space|Invalid argument)"
    r"|landlock: the kernel does not offer it|cannot be read by the worker's uid"
)


def reach(way: Way, stage: Path) -> Judge | str:
    if way.as_root and os.geteuid() != 0:
        return f"{way} needs root"
    python = python_for(way.as_root, own_uid_workers=way.mechanism == "landlock")
    if python is None:
        return f"{way}: no Python >= 3.11 on this machine that every user may execute"
    judge = Judge(way, stage, python)
    answer = judge.run("reach")
    if "unavailable" in answer:
        # Only what a machine may rightly deny: any other refusal is a fault of ours, not a reason to skip.
        assert re.search(_DENIED_BY_THE_MACHINE, answer["unavailable"]), answer["unavailable"]
        return answer["unavailable"]
    assert answer["ok"], answer
    assert (answer["level"], answer["mechanism"]) == (way.level, way.mechanism)
    return judge
