"""One call of ``kbverified audit-problem`` or ``kbverified stage``, as every study that runs stages by itself makes it.

The package that is called is the one that is imported here, so that a digest of its source taken here is the digest of
what made the record. Torch-free.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbverified import deadline
from kbverified.source_digest import PACKAGE_ROOT

PROJECT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "kbverified")
_POLL_S = 0.2
_TOLD_CHARACTERS = 300


@dataclass(frozen=True)
class Calls:
    """What all calls of one run have in common. The evaluator is on unless the environment says otherwise."""

    device: str
    build_root: Path
    arch: str | None = None
    """GPU architectures to build for; None leaves it to the command."""
    more: tuple[str, ...] = ()
    """Further options, of every call."""
    cut_off: Callable[[], bool] | None = None
    """Asked while a call runs: whether it is to be killed, with all that it has started."""

    def call(self, words: Sequence[str], out: Path, log: Path) -> int | None:
        """Exit code of the command whose record goes to ``out``, what it prints to ``log``; None where it was cut off.

        Raises OSError.
        """
        out.parent.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [*COMMAND, *words, "--out", str(out), "--device", self.device, "--build-root", str(self.build_root)]
        command += [*(["--arch", self.arch] if self.arch and self.device == "cuda" else []), *self.more]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=PROJECT,
                env=_environment(),
                start_new_session=self.cut_off is not None,  # Ctrl-C is for who cuts off; without, for all
            )
            try:
                return self._wait(process)
            finally:
                if process.poll() is None:
                    deadline.kill(process)

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        if self.cut_off is None:
            return process.wait()
        while not self.cut_off():
            try:
                return process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                continue
        return None


def told(log: Path) -> str:
    """The end of what a call has printed."""
    return log.read_text(errors="replace")[-_TOLD_CHARACTERS:].strip()


def _environment() -> dict[str, str]:
    path = [str(PACKAGE_ROOT.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"KBV_EVALUATOR": "on", **os.environ, "PYTHONPATH": os.pathsep.join(part for part in path if part)}
