"""Stands for the stage command where a test is about who calls it: writes down each call, and a record at once.

``fake_stage.py PLAN WORDS...``. The plan, a JSON file, names problems by what is to happen to them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import record_factory as make

from kbverified.keys import ProblemKey
from kbverified.records.files import write


def main(plan_path: Path, words: list[str]) -> int:
    plan = json.loads(plan_path.read_text())
    stage = words[1] if words[0] == "stage" else words[0]
    given = {name: Path(value) for name, value in itertools.pairwise(words) if name.startswith("--")}
    key = ProblemKey.from_path(given["--problem"])
    sample = given["--candidate"].stem if "--candidate" in given else "0"
    with plan_path.with_name("calls").open("a") as calls:
        calls.write(f"{stage} {key.problem} {sample}\n")
    for name in ("--audit", "--compiled", "--gate"):
        assert name not in given or given[name].is_file(), f"{stage} without its {name}"
    if key.problem in plan.get("hangs", []) and stage == "time-tf32":
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        plan_path.with_name("pids").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(300)
    if f"{stage} {key.problem}" in plan.get("faults", []):
        print("no such device")
        return 75
    about = {"problem_sha256": sha256(given["--problem"]), "device": None if stage == "compile" else make.CPU}
    if stage == "audit-problem":
        usable = key.problem not in plan.get("unusable", [])
        provenance = make.provenance(stage, **about)
        record = make.problem(key, provenance=provenance, usable=usable, detail=None if usable else "raises")
    else:
        about["candidate_sha256"] = sha256(given["--candidate"])
        if stage == "compile":
            record = make.compiled(**about)
        elif stage == "hidden-gate":
            verdict = "runtime_error" if key.problem in plan.get("fails", []) else "pass"
            record = make.gate(verdict=verdict, detail=None if verdict == "pass" else "forward\nraised", **about)
        else:
            record = make.timing(stage, 4.0, 4.0, rounds=8, **about)
            record = record.model_copy(update={"budget_s": float(str(given["--timing-budget-s"]))})
    write(given["--out"], record)
    return 0


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
