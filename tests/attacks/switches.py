"""Defences by name, and how they are switched off: some in the judge, some in the worker, ``one_process`` in both."""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from judge_switches import JUDGES
from worker_switches import WORKERS

SWITCHES = {*JUDGES, *WORKERS, "hardened"}
"""``hardened``: that verdict is not looked at. Nothing is run for it: the hidden verdict stands in the same record."""


def switch_off_in_judge(names: list[str]) -> None:
    """Change this process, which is or will be a judge. Raises KeyError for a name that there is not."""
    for name in names:
        if name in JUDGES or name not in WORKERS:
            JUDGES[name]()
    from kbverified.judge import rounds

    rounds.TIMING_UNSTABLE_HALF_WIDTH = dict.fromkeys(rounds.TIMING_UNSTABLE_HALF_WIDTH, math.inf)  # not the question
