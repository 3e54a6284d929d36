"""Asks for descriptions: keeps one process that parses (child), replaces it when a source kills it."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.static_view import child
from kbverified.static_view.describe import View

# Far above the child's own limit on CPU seconds: a machine that stalls says nothing about a source.
WALL_LIMIT_S = 300.0

_START = (
    "import sys; sys.path.append(sys.argv[1]); from kbverified.static_view.child import main; main(int(sys.argv[2]))"
)


class Reader:
    """Describes sources, one after another; a context manager. The process starts with the first source."""

    def __init__(self, cpu_limit_s: int = child.CPU_LIMIT_S) -> None:
        self._cpu_limit_s = cpu_limit_s
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def describe(self, source: bytes, problem: bytes = b"") -> View:
        """Describe a candidate's source beside its problem's (empty: none to compare with).

        What no source can be blamed for is raised: OSError where the process cannot start or was killed from
        outside, subprocess.TimeoutExpired where it does not answer within WALL_LIMIT_S.
        """
        if len(source) > CANDIDATE_SIZE_LIMIT_BYTES:
            return View(None, f"not described: larger than {CANDIDATE_SIZE_LIMIT_BYTES} bytes")
        if self._child is None:
            package_root = Path(child.__file__).parents[2]
            command = [
                sys.executable,
                "-I",
                "-S",
                "-W",
                "ignore",
                "-c",
                _START,
                str(package_root),
                str(self._cpu_limit_s),
            ]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        line = self._ask(self._child, source, problem)
        if line.endswith(b"\n"):
            fields: dict[str, Any] = json.loads(line)
            return View(**{name: _frozen(value) for name, value in fields.items()})
        ended = self._child.wait()
        self.close()
        if ended == -signal.SIGKILL:
            raise OSError("the process that describes sources was killed; is the machine out of memory?")
        limits = f"{self._cpu_limit_s} s and {child.MEMORY_LIMIT_BYTES >> 30} GiB"
        return View(None, f"cannot be described within {limits}")

    def _ask(self, process: subprocess.Popen[bytes], source: bytes, problem: bytes) -> bytes:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps([len(source), len(problem)]).encode() + b"\n" + source + problem)
            process.stdin.flush()
        except BrokenPipeError:
            return b""
        if not select.select([process.stdout], [], [], WALL_LIMIT_S)[0]:
            self.close()
            raise subprocess.TimeoutExpired("static view", WALL_LIMIT_S)
        return process.stdout.readline()


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
