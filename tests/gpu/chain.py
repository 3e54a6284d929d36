"""Run candidates through all stages with the real command, several at once: the device's lease keeps them in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STAGES = ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")


@dataclass(frozen=True)
class Item:
    """One candidate file and its problem file."""

    candidate: Path
    problem: Path

    @property
    def name(self) -> str:
        return f"{self.candidate.parents[2].name}/{self.problem.stem}/{self.candidate.stem}"


class Bench:
    """A results folder and the settings under which everything in it is made."""

    def __init__(self, out: Path, device: str = "cuda", timeout_s: float = 30.0):
        self.out = out
        self.device = device
        self.options = ["--device", device, "--timeout-s", str(timeout_s), "--build-root", str(out / "build")]
        if device == "cpu":  # what a CPU says of a ratio is not asked to be exact
            self.options += ["--timing-budget-s", "0.2"]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *_site()])}

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kbverified", words[0], *self.options, *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=ROOT, check=False)

    def audit(self, problem: Path) -> Path:
        """Audit a problem; path of its record. Raises AssertionError with the command's own words."""
        record = self.out / "problems" / problem.parent.name / f"{problem.stem}.json"
        if not record.exists():
            words = [
                "--problem",
                str(problem),
                "--out",
                str(record),
                "--timeout-s",
                "300",
            ]  # the bench's is an answer's
            done = self.call("audit-problem", *words)
            assert done.returncode == 0, done.stderr[-3000:]
        return record

    def chain(self, item: Item, stages: tuple[str, ...] = STAGES) -> dict[str, Any]:
        """All stages of one candidate; records by stage."""
        audit = self.audit(item.problem)
        paths = {stage: self.out / stage / f"{item.name}.json" for stage in {*STAGES, *stages}}
        records = {}
        for stage in stages:
            words = ["stage", stage, "--candidate", str(item.candidate), "--problem", str(item.problem)]
            words += ["--audit", str(audit), "--out", str(paths[stage])]
            if stage != "compile":
                words += ["--compiled", str(paths["compile"])]
            if stage not in ("compile", "hidden-gate"):
                words += ["--gate", str(paths["hidden-gate"])]
            for _ in range(2):
                done = self.call(*words)
                assert done.returncode == 0, f"{item.name} {stage}: exit {done.returncode}: {done.stderr[-3000:]}"
                records[stage] = json.loads(paths[stage].read_text())
                # A CPU that does other work as well can make an honest claim look short: once, not every time.
                if self.device != "cpu" or records[stage]["verdict"] != "time_disputed":
                    break
        return records

    def chains(self, items: list[Item], stages: dict[str, tuple[str, ...]], at_once: int = 12) -> dict[str, Any]:
        """Many candidates; records by name and stage, an exception's text where a stage failed.

        ``stages`` names the stages of those that shall not go through all.
        """
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self.audit, sorted({item.problem for item in items})))

            def one(item: Item) -> Any:
                try:
                    return self.chain(item, stages.get(item.name, STAGES))
                except AssertionError as error:
                    return str(error)

            return dict(zip([item.name for item in items], pool.map(one, items)))


def _site() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def bundled(generator: str, devices: tuple[str, ...]) -> list[Item]:
    """Bundled candidates of a generator that are meant for any of these devices."""
    items = []
    for path in sorted((ROOT / "generations" / generator / "bundled").glob("*/*.py")):
        settings = json.loads(path.with_suffix(".json").read_text())["settings"]
        if settings.get("devices", "any") in devices:
            items.append(Item(path, ROOT / "problems" / "bundled" / f"{path.parent.name}.py"))
    return items


def expected_verdict(item: Item) -> str:
    return json.loads(item.candidate.with_suffix(".json").read_text())["expected_verdict"]


def verdict(records: dict[str, Any], tau: float = 1e-3) -> str:
    """Verdict over all distributions at a tolerance, derived here independently of the aggregation."""
    if records["compile"]["verdict"] != "pass":
        return records["compile"]["verdict"]
    gate = records["hidden-gate"]
    if gate["verdict"] != "pass":
        return gate["verdict"]
    worst = max(t["critical_tolerance"] for t in gate["trials"] if t["applicable"])
    if worst <= tau:
        return "pass"
    return "weights_differ" if gate["weights_match"] is False else "wrong_value"
