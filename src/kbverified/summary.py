"""What a run says at its end: the leaderboard and where the files are, or what to look at after a failure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

FILES = {
    "leaderboard": "results/leaderboard.md, .csv, .json",
    "one row per candidate": "results/kernels/{generator}.parquet",
    "raw records": "results/{stage}/{generator}/{suite}/{problem}/{sample}.json",
    "problem audits": "results/problems/{suite}/{problem}.json",
}


def print_success(root: Path, stream: TextIO | None = None) -> None:
    """Print the leaderboard that lies under root and where everything is. Never raises."""
    out = stream or sys.stdout
    try:
        print("\n" + (root / "results" / "leaderboard.md").read_text(encoding="utf-8").rstrip() + "\n", file=out)
        for what, where in FILES.items():
            print(f"  {what + ':':24}{where}", file=out)
        out.flush()
    except OSError:
        pass


def print_failure(logs: list[str], stream: TextIO | None = None) -> None:
    """Say what a failed run left and what to do next. Never raises."""
    text = (
        "\nSome jobs failed. That is never a verdict on a candidate (those are recorded), but a fault of the machine:\n"
        "a GPU that is missing or busy, a full disk, a killed process. No record was written for them and none lost.\n"
        "  what failed:   the log file named in each error above\n"
        f"  whole log:     {', '.join(logs)}\n"
        "  next:          mend the cause and run the same command again; only what is missing runs\n"
    )
    try:
        print(text, file=stream or sys.stderr, flush=True)
    except OSError:
        pass
