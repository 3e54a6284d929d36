"""Several lists of mutants as one run: the rule that leaves equivalents out is for all of them together.

    python -m benchmarks.mutation.one_run docs/runs/A.jsonl.gz docs/runs/B.jsonl.gz > report.md

Each list has left out a tenth of its own mutants at most (``screening.py``). Of all together those with the smallest
ids are left out, a tenth at most. Who is back in by that and was never judged counts as a survivor of every test: it
was bitwise its parent. A list that the gate had no time for is cut where the gate stopped, which goes by ids.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.mutation import report, score, screening
from benchmarks.mutation.score import Line


def cut(lines: Iterable[Line]) -> list[Line]:
    """A list without the mutants that the gate did not come to, and without those whose turn would have been later."""
    lines = list(lines)
    kept = [line for line in lines if line.fault is not None and line.screened == "kept"]
    if all(line.hidden is not None for line in kept):
        return lines
    last = max((line.id for line in kept if line.hidden is not None), default="")
    return [x for x in lines if x.fault is None or (x.id <= last and (x.screened != "kept" or x.hidden is not None))]


def one_run(lists: Iterable[Sequence[Line]]) -> list[Line]:
    """All lines, each parent once, and each mutant kept or left out by the rule for all.

    Raises ValueError for a mutant that is in two lists.
    """
    every = [line for one in lists for line in cut(one)]
    parents = {line.parent: line for line in every if line.fault is None}
    mutants = [line for line in every if line.fault is not None]
    twice, times = max(Counter(line.id for line in mutants).items(), key=lambda known: known[1], default=("", 0))
    if times > 1:
        raise ValueError(f"mutant {twice} is in two of the lists: a fresh list is made with --not-in")
    built = [line for line in mutants if line.screened != "does not build"]
    out = screening.left_out((line.id for line in built if line.why.startswith(screening.EQUAL)), len(built))
    return [*parents.values(), *(_screened_again(line, line.id in out) for line in mutants)]


def _screened_again(line: Line, left_out: bool) -> Line:
    if left_out:
        return replace(line, screened="equivalent")
    if line.screened != "equivalent":
        return line
    return replace(line, screened="kept", standard="pass", hidden="pass", hardened="pass")


def main(argv: list[str] | None = None) -> int:
    """Exit code 2: a file is missing, or no list."""
    parser = argparse.ArgumentParser(prog="benchmarks.mutation.one_run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", type=Path, nargs="+", help="lines.jsonl.gz of each list")
    parser.add_argument("--title", default="Mutation score, all lists as one run")
    arguments = parser.parse_args(argv)
    try:
        lines = one_run([report.read_lines(path) for path in arguments.files])
    except (ValueError, OSError, TypeError) as error:
        print(f"one_run: {error}", file=sys.stderr)
        return 2
    print(score.text(lines, arguments.title), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
