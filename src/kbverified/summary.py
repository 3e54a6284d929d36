"""What a run says at its end: the leaderboard and where the files are, or what to look at after a failure."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

RAW_FILES = (
    "results/kernels/{generator}.parquet                               one row per candidate",
    "results/{stage}/{generator}/{suite}/{problem}/{sample}.json       raw records",
    "results/problems/{suite}/{problem}.json                           problem audits",
)


def print_success(root: Path) -> None:
    """Print the leaderboard that lies under root and where everything is. Never raises: the run has succeeded.

    ``KBVERIFIED_SUMMARY=off`` leaves it out, for whoever prints it anyway.
    """
    if os.environ.get("KBVERIFIED_SUMMARY", "").lower() == "off":
        return
    try:
        from kbverified.leaderboard import Leaderboard
        from kbverified.leaderboard.terminal import print_leaderboard
        from kbverified.records.files import read

        print()
        print_leaderboard(read(root / "results" / "leaderboard.json", Leaderboard), root / "results")
        print("\n".join(RAW_FILES), flush=True)
    except FileNotFoundError:
        pass  # other targets were asked for
    except Exception as error:  # a closed pipe, an older file
        print(f"The leaderboard could not be printed: {error}", file=sys.stderr)


def print_failure(logs: list[str], stream: TextIO | None = None) -> None:
    """Say what a failed run left and what to do next. Never raises."""
    text = (
        "\nSome jobs failed. That is never a verdict on a candidate (those are recorded): a GPU that is missing or\n"
        "busy, a full disk, a killed process, or an input that cannot be used. Nothing that was recorded is lost.\n"
        "  what failed:   see the log in each error above\n"
        f"  whole log:     {', '.join(logs)}\n"
        "  next:          mend the cause and run the same command again; only what is missing runs\n"
    )
    try:
        print(text, file=stream or sys.stderr, flush=True)
    except OSError:
        pass
