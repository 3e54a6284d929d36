"""What runs, how many jobs are left, which verdicts came so far, and when it will end.

Snakemake announces every job at length; for thousands of jobs that is no overview. ``start`` listens to its log
events and prints one line every few seconds instead, on a terminal and in a CI log alike. Errors, warnings and
Snakemake's own log file stay as they are. Nothing here may ever break a run: what goes wrong is left unsaid.
``KBVERIFIED_PROGRESS=off`` brings Snakemake's own output back.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import Counter
from typing import Any, TextIO

INTERVAL_S = 10.0
RUNNING_SHOWN = 2

# Events that the one line replaces, and the two messages without an event around each scheduling.
_QUIETED = {"job_info", "group_info", "job_started", "job_finished", "progress", "shellcmd", "resources_info"}
_QUIETED_MESSAGES = ("Select jobs to execute", "Execute ")


class Progress(logging.Handler):
    """Counts Snakemake's job events; verdicts are read from the record that a finished job has written."""

    def __init__(self, total: int = 0, stream: TextIO | None = None, clock: Any = time.monotonic) -> None:
        super().__init__(logging.INFO)
        self._stream = stream or sys.stderr
        self._clock = clock
        self._begin = clock()
        self._jobs: dict[int, tuple[str, str, str | None]] = {}  # id -> rule, what, record
        self._running: dict[int, float] = {}
        self._done = 0
        self._failed: set[int] = set()
        self._total = total
        self._verdicts: Counter[str] = Counter()
        self._skipped = 0
        self._stop = threading.Event()
        self._last = ""

    # -- events ----------------------------------------------------------------------------------------------
    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = str(getattr(record, "event", "") or "")
            handle = getattr(self, f"_on_{event}", None)
            if handle is not None:
                handle(record)
        except Exception:  # a progress line is worth less than the run
            pass

    def _on_job_info(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        outputs = [str(path) for path in fields.get("output") or ()]
        tail = "/".join(str(value) for value in dict(fields.get("wildcards") or {}).values())
        job = int(fields["jobid"])
        self._jobs[job] = (fields["rule_name"], tail, outputs[0] if outputs else None)
        self._running[job] = self._clock()

    def _on_job_finished(self, record: logging.LogRecord) -> None:
        job = int(vars(record)["job_id"])
        self._running.pop(job, None)
        self._failed.discard(job)  # a retry helped
        self._done += 1
        _, _, path = self._jobs.pop(job, ("", "", None))
        if path and path.startswith("results/") and path.endswith(".json"):
            self._count(path)

    def _on_job_error(self, record: logging.LogRecord) -> None:
        job = int(vars(record)["jobid"])
        self._running.pop(job, None)
        self._failed.add(job)

    def _on_progress(self, record: logging.LogRecord) -> None:
        self._total = max(self._total, int(vars(record)["total"]))

    def _count(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                written = json.load(file)
        except (OSError, ValueError):
            return
        if written.get("status") == "skipped":
            self._skipped += 1
        elif written.get("stage") == "hidden-gate":
            self._verdicts[written["verdict"]] += 1
        elif written.get("verdict") not in (None, "pass"):
            self._verdicts[f"{written['verdict']} in {written['stage']}"] += 1

    # -- the line --------------------------------------------------------------------------------------------
    def line(self) -> str:
        """The state now, in one line."""
        elapsed = self._clock() - self._begin
        parts = [f"[{_clock_text(elapsed)}] {self._done} of {self._total or '?'} jobs"]
        if self._failed:
            parts.append(f"{len(self._failed)} FAILED")
        if self._running:
            oldest = sorted(self._running, key=self._running.__getitem__)[:RUNNING_SHOWN]
            names = [" ".join(filter(None, self._jobs.get(job, ("?", "", None))[:2])) for job in oldest]
            more = f" +{len(self._running) - len(names)}" if len(self._running) > len(names) else ""
            parts.append(f"running {', '.join(names)}{more}")
        if self._verdicts or self._skipped:
            counts = [f"{name} {count}" for name, count in self._verdicts.most_common()]
            if self._skipped:
                counts.append(f"stages skipped {self._skipped}")
            parts.append("verdicts: " + ", ".join(counts))
        if self._done >= 3 and self._total > self._done:
            parts.append(f"about {_clock_text(elapsed / self._done * (self._total - self._done))} left")
        return " | ".join(parts)

    def _print(self) -> None:
        try:
            text = self.line()
            # The clock alone is no news: without any change, one line a minute says that it still lives.
            state = text.split("]", 1)[-1].split(" | about", 1)[0]
            if state == self._last and self._clock() - self._printed < 6 * INTERVAL_S:
                return
            self._last, self._printed = state, self._clock()
            self._stream.write(text + "\n")
            self._stream.flush()
        except Exception:  # a closed pipe, a full disk: go on without a line
            pass

    _printed = float("-inf")

    def run(self) -> None:
        """Print until ``finish`` is called; meant for a daemon thread."""
        while not self._stop.wait(INTERVAL_S):
            self._print()

    def finish(self) -> None:
        """Print the last line and stop."""
        if not self._stop.is_set():
            self._stop.set()
            self._print()


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _quieted(record: logging.LogRecord) -> bool:
    event = getattr(record, "event", None)
    if event is not None:
        return str(event) in _QUIETED
    return record.levelno == logging.INFO and str(record.msg).startswith(_QUIETED_MESSAGES)


_active: list[Progress] = []


def start(logger: logging.Logger, total: int) -> None:
    """Begin to print progress of ``total`` jobs from Snakemake's logger; not where it is switched off."""
    if os.environ.get("KBVERIFIED_PROGRESS", "").lower() == "off":
        return
    try:
        progress = Progress(total)
        for handler in logger.handlers:
            if handler.name == "DefaultStreamHandler":
                handler.addFilter(lambda record: not _quieted(record))
        logger.addHandler(progress)
        _active.append(progress)
        threading.Thread(target=progress.run, name="progress", daemon=True).start()
    except Exception:  # without progress, then
        pass


def finish() -> None:
    """Print the last line of a progress that was started."""
    while _active:
        _active.pop().finish()
