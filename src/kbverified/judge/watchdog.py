"""A limit in time for trusted code that runs in this process: it ends the process, as nothing else ends an operator."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Iterator

from kbverified.exit_codes import EXIT_INFRASTRUCTURE


class Watchdog:
    """So many seconds in all for the parts that it watches; what lies between (waiting for a device) is not counted."""

    def __init__(self, limit_s: float, what: str):
        self.what = what
        self._limit_s = limit_s
        self._left_s = limit_s

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Once the time is used up the process ends with EXIT_INFRASTRUCTURE, and nothing is recorded.

        By a thread: a signal's handler would wait for the operator that hangs. Code that never lets go of Python's
        lock is not ended.
        """
        timer = threading.Timer(self._left_s, self._end)
        timer.daemon = True
        start = time.monotonic()
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._left_s = max(0.0, self._left_s - (time.monotonic() - start))

    def _end(self) -> None:
        print(
            f"kbverified: infrastructure fault, nothing was recorded: {self.what} took longer than "
            f"{self._limit_s:g} s (--timeout-s; timeouts_s.audit-problem in the configuration). It was at:",
            file=sys.stderr,
            flush=True,
        )
        with contextlib.suppress(Exception):  # a standard error that is no file
            faulthandler.dump_traceback(all_threads=True)
        os._exit(EXIT_INFRASTRUCTURE)
