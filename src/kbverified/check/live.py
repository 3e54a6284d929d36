"""What is said while a check runs: a line for each step that is done, and on a terminal what is being done now."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kbverified.check.chain import Done
from kbverified.printable import printable
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import StageRecord

WAITS = "waiting for"
"""How a stage's word begins that another job has the device (lease.py)."""


class Live:
    """Writes to one console; a context manager, so that no spinner outlives the steps."""

    def __init__(self, console: Console, steps: list[str]) -> None:
        self._console = console
        self._width = max(map(len, steps))
        self._status: Status | None = None
        if console.is_terminal:
            self._status = Status("", console=console, spinner="line")

    def __enter__(self) -> Live:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def running(self, step: str, seconds: float, said: str) -> None:
        """A step is under way; ``said`` is the last that its command said."""
        if self._status is not None:
            waits = f", {printable(said)}" if said.startswith(WAITS) else ""
            self._status.update(Text(f"{step} {seconds:.0f} s{waits}"))

    def done(self, step: Done) -> None:
        """A step is over: its line stays."""
        line = f"  {step.name:<{self._width}}  {step.duration_s:6.1f} s  {outcome(step)}"
        self._console.print(Text(printable(line)), soft_wrap=True)


def outcome(step: Done) -> str:
    """What a step came to, in few words."""
    record = step.record
    kept = " (from the cache)" if step.from_cache else ""
    if isinstance(record, ProblemRecord):
        return f"{'usable' if record.usable else f'not usable: {record.detail}'}{kept}"
    if not isinstance(record, StageRecord):
        return f"measured{kept}"
    if record.status == "skipped":
        return f"skipped: {record.reason}"
    if record.verdict == "pass":  # of the gate: no failure that no tolerance can mend; the test is judged below
        return "done"
    return str(record.verdict)
