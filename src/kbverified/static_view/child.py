"""The process in which hostile text is parsed: reads sources from its input, writes one line per description.

A request is a line ``[candidate bytes, problem bytes]`` followed by those bytes; the answer is a View as JSON. The
limit on CPU seconds holds per source. Python parsers have crashed and hung on odd text, so whoever asks expects this
process to die, and starts another.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import warnings
from functools import lru_cache
from typing import BinaryIO

from kbverified.static_view.describe import Problem, View, describe, problem_of

CPU_LIMIT_S = 5
"""CPU seconds per source: real candidates take a few milliseconds."""
MEMORY_LIMIT_BYTES = 2 << 30
_PARSE_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@lru_cache(maxsize=2)
def _problem(data: bytes) -> Problem | None:
    return problem_of(data.decode("utf-8-sig")) if data else None


def answer(candidate: bytes, problem: bytes) -> View:
    """Describe one source; a text that cannot be parsed is a View without kind."""
    try:
        return describe(candidate.decode("utf-8-sig"), _problem(problem))
    except _PARSE_FAILURES as error:
        return View(None, f"cannot be described: {type(error).__name__}")


def serve(requests: BinaryIO, answers: BinaryIO, cpu_limit_s: int) -> None:
    """Answer requests until there are no more; one that takes longer ends the process."""
    while line := requests.readline():
        sizes = json.loads(line)
        candidate, problem = (requests.read(size) for size in sizes)
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime) + 1 + cpu_limit_s
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        view = answer(candidate, problem)
        answers.write(json.dumps(view.as_dict()).encode() + b"\n")
        answers.flush()


def main(cpu_limit_s: int = CPU_LIMIT_S) -> None:
    """Set the limits and serve standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    gc.set_threshold(100_000)  # syntax trees are large and short-lived
    serve(sys.stdin.buffer, sys.stdout.buffer, cpu_limit_s)


if __name__ == "__main__":
    main()
