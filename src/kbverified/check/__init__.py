"""``kbverified check kernel.py --problem level1_19``: one file through every stage on this machine, and its verdict.

The stages, the row and the verdicts are the workflow's own; only where the records lie is another place (place.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from kbverified.deadline import answering
from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_MACHINE

if TYPE_CHECKING:
    from kbverified.check.judged import Judged
    from kbverified.check.question import Question

EXAMPLES = """\
examples:
  kbverified check kernel.py --problem level1_1                     a problem of a suite in this checkout
  kbverified check kernel.py --problem level1_19 --suite kernelbench --device cuda --dtype bf16
  kbverified check kernel.py --problem path/to/problem.py           anywhere, with a problem file
  kbverified check kernel.py --problem level1_1 --stages hidden-gate --test hardened
  kbverified check kernel.py --problem level1_1 --json > verdict.json

exit code: 0 pass, 1 fail (the candidate has a verdict), 2 usage or bad input, 3 a fault of the machine.
The candidate is untrusted and runs in the sandbox; the problem is trusted and runs with your rights.
"""


def add_parser(subparsers: Any) -> None:
    """Add ``check`` to the commands."""
    parser = subparsers.add_parser(
        "check",
        help="judge, time and measure one kernel file on this machine; the exit code says pass",
        description="Takes one file through all stages on this machine and prints the verdict with its numbers.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("candidate", type=Path, metavar="KERNEL.py", help="a source that defines ModelNew")
    parser.add_argument(
        "--problem", required=True, help="level1_19, SUITE/level1_19, or the path of a problem's .py file"
    )
    parser.add_argument("--suite", help="folder of problems/, where several have the problem")
    parser.add_argument("--root", type=Path, help="the checkout with problems/ (default: this folder or one above it)")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: a GPU where one is")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument(
        "--test", choices=("standard", "hidden", "hardened"), default="hidden", help="whose verdict decides (hidden)"
    )
    parser.add_argument("--tau", type=_positive, help="tolerance (default: 1e-3 for fp32, 1e-2 for bf16)")
    parser.add_argument(
        "--stages", help="only these and what they need, with commas: compile,hidden-gate,time-tf32,..."
    )
    parser.add_argument("--json", action="store_true", help="the outcome, the stages and the whole row as JSON")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep records and logs there (a new or empty folder)"
    )
    parser.add_argument("--sandbox", choices=("auto", "full", "user", "none"), default="auto")
    parser.add_argument("--gate-mode", choices=("ieee", "default"), default="ieee")
    parser.add_argument("--timing-budget-s", type=_positive, default=1.5, help="what the rounds of a timing may take")
    parser.add_argument(
        "--timeout-s", type=_positive, help="one answer of a worker (default: the workflow's, by stage)"
    )
    parser.add_argument("--arch", help="GPU architecture to build for, as 9.0 (default: this machine's)")
    parser.add_argument("--build-root", type=Path, help="where extensions are built (default: .build, or the cache)")
    parser.set_defaults(run=run, fault_code=EXIT_MACHINE)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Check and report; the exit code. Raises ValueError for bad input, and RuntimeError and OSError for faults."""
    try:
        with _ended_by_signals():
            return _check(arguments)
    except KeyboardInterrupt:
        print("kbverified: ended before there was a verdict", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if arguments.json:
            bad = isinstance(error, ValueError | FileNotFoundError)
            code = EXIT_BAD_INPUT if bad else EXIT_MACHINE
            print(json.dumps({"outcome": "error", "exit_code": code, "reason": str(error)}, indent=1))
        raise


def _check(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from kbverified.check import chain, judged, place, question
    from kbverified.check.live import Live
    from kbverified.cli import reader_may_leave

    asked = question.of(arguments)
    errors = Console(stderr=True, highlight=False)
    with place.made(asked, arguments.keep) as where:
        todo = chain.steps(where, (arguments.build_root or place.usable_build_root(where)).absolute())
        done = []
        with Live(errors, [step.name for step in todo]) as live:
            for step in todo:
                done.append(chain.run(step, where.log(step.name), live.running))
                live.done(done[-1])
                judged.require_usable(done[-1], asked)
        result = judged.judge(where)
    with reader_may_leave():
        if arguments.json:
            print(judged.document(result, asked, done, arguments.keep))
        else:
            _print(result, asked, arguments.keep)
    return result.outcome.exit_code


def _print(result: Judged, asked: Question, keep: Path | None) -> None:
    from rich.console import Console

    from kbverified.check.report import print_report

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    print_report(result, asked, console)
    print(f"\nRecords and logs: {keep}" if keep is not None else "\nRecords were not kept (--keep FOLDER does).")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a check as Ctrl-C does: with its command and without its folder."""
    with answering((signal.SIGTERM, signal.SIGHUP), _interrupt):
        yield


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
