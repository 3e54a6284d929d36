"""The leaderboard: ``build`` computes it, ``write`` puts it into files, the command prints it again.

``python -m kbverified leaderboard`` shows what the last run wrote; nothing is computed anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kbverified.exit_codes import EXIT_BAD_INPUT
from kbverified.leaderboard.build import build
from kbverified.leaderboard.files import FILE_NAMES, write
from kbverified.leaderboard.model import Leaderboard

__all__ = ["Leaderboard", "add_parser", "build", "run", "write"]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the ``leaderboard`` command."""
    parser = subparsers.add_parser("leaderboard", help="print the leaderboard that the last run wrote")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of leaderboard.json")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the leaderboard in a folder of results. Exit code 0, or 2 where there is none that can be read."""
    from kbverified.leaderboard.terminal import print_leaderboard
    from kbverified.records.files import RecordError, read

    path = args.results / FILE_NAMES["json"]
    try:
        leaderboard = read(path, Leaderboard)
    except FileNotFoundError:
        print(f"There is no {path}. Run snakemake first, or name the folder with --results.", file=sys.stderr)
        return EXIT_BAD_INPUT
    except RecordError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    print_leaderboard(leaderboard, args.results)
    return 0
