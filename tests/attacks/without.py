"""The command with defences of the judge switched off, to show that an attack escapes without them.

    python without.py redraw,bound stage time-fp32 ...

Only the judge's process is changed, from here; nothing in the package knows of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def _redraw() -> None:
    """Every round has the inputs of the first."""
    from kbverified.judge import timing

    first: list = []

    def redraw(reference):
        first[:] = first or [original(reference)]
        return first[0]

    original, timing._redraw = timing._redraw, redraw


def _verify() -> None:
    """No output of a timed launch is compared."""
    from kbverified.correctness import compare_all
    from kbverified.judge import timing

    def agree(side, reference, inputs):
        answers = side.exchange.take()
        return compare_all(answers, answers)

    timing._verify = agree


def _bound() -> None:
    """No claim is held against the judge's own clock."""


SWITCHES: dict[str, Callable[[], None]] = {"redraw": _redraw, "verify": _verify, "bound": _bound}


def main() -> int:
    os.environ["KBV_EVALUATOR"] = "off"  # a judge forked from there would be whole
    for name in sys.argv[1].split(","):
        SWITCHES[name]()
    from kbverified.cli import main as command

    return command(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
