"""What a worker prints: counted, its end kept, the rest thrown away."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from kbverified.protocol import WORKER_OUTPUT_KEPT_BYTES


class OutputDrain:
    """A thread that empties the pipe of a worker's standard output and error until the family has closed it.

    Calls ``on_flood`` once, from its own thread, when more than ``limit_bytes`` were printed.
    """

    def __init__(self, fd: int, limit_bytes: int, on_flood: Callable[[], None], name: str) -> None:
        self.total_bytes = 0
        self.flooded = False
        self._fd = fd
        self._limit_bytes = limit_bytes
        self._on_flood = on_flood
        self._tail = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"output of {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while data := os.read(self._fd, 1 << 16):
                with self._lock:
                    self.total_bytes += len(data)
                    self._tail += data
                    del self._tail[:-WORKER_OUTPUT_KEPT_BYTES]
                    flooded = self.total_bytes > self._limit_bytes and not self.flooded
                    self.flooded |= flooded
                if flooded:
                    self._on_flood()
        finally:
            os.close(self._fd)

    def tail(self) -> str:
        with self._lock:
            return self._tail.decode("utf-8", "replace")

    def join(self, timeout_s: float) -> None:
        """Wait until everything that was printed has been counted. Not from the thread itself."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
