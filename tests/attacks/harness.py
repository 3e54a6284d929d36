"""Runs one attack, the attack without its defence, and its twin through the real command."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from attack import HERE, Attack
from chain import ROOT, Bench
from chain import verdict as hidden_verdict
from problem_texts import PROBLEMS, problem_text
from without import SERVE, SOCKET_VARIABLE

from kbverified.hardened.verdict import judge as hardened_verdict
from kbverified.records.stages import GateRecord

KINDS = ("attack", "without its defence", "twin")
NO_RECORD = {"verdict": "no record"}
SECRET = "KBV_ATTACKED_SECRET"
"""A variable of the judge's environment that no worker has."""


@dataclass
class Range:
    """A folder with audited problems, in which attacks run on one device, and with what they may be after.

    A candidate lies in ``generations/attacks/FAMILY/``. Another one lies beside it; problems, records and builds lie
    where they would lie in a checkout.
    """

    bench: Bench
    device: str
    port: int = 0
    """Of this machine, where somebody listens who would tell the answer."""
    warm: Path | None = None
    """The socket of a process that runs commands without defences: see ``without.py``."""
    audits: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bench.environment[SECRET] = "secret"

    def targets(self) -> list[Path]:
        """Files that are nobody's but the judge's."""
        out = self.bench.out
        names = (
            "generations/attacks/files_and_network/other.py",
            "hidden-gate/other.json",
            "build/candidates/other.so",
        )
        return [out / name for name in names]

    def restore_targets(self) -> None:
        for path in self.targets():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("whole\n")

    def touched_targets(self) -> list[str]:
        return [path.name for path in self.targets() if path.read_text() != "whole\n"]

    def problem(self, name: str) -> Path:
        path = self.bench.out / "problems" / "attacks" / f"level1_{1 + list(PROBLEMS).index(name)}.py"
        if name not in self.audits:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(problem_text(name, self.device))
            self.audits[name] = self.bench.audit(path)
        return path

    def candidate(self, source: Path) -> Path:
        path = self.bench.out / "generations" / "attacks" / source.parent.name / source.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(source.read_text().replace("PORT = 0", f"PORT = {self.port}"))
            part.rename(path)
        return path

    def stage(self, stage: str, candidate: Path, problem: str, gate: Path | None = None, without: str = "") -> Path:
        """One stage of one candidate, with defences switched off or none; path of its record."""
        done, out = self._run(stage, candidate, problem, gate, without)
        assert done.returncode == 0, f"{candidate.name} {stage}: exit {done.returncode}: {done.stderr[-3000:]}"
        return out

    def _run(
        self, stage: str, candidate: Path, problem: str, gate: Path | None, without: str
    ) -> tuple[subprocess.CompletedProcess[str], Path]:
        source = self.problem(problem)
        out = (
            self.bench.out / stage / f"{candidate.parent.name}-{candidate.stem}{without and '-without-' + without}.json"
        )
        words = ["stage", stage, "--candidate", str(self.candidate(candidate)), "--problem", str(source)]
        words += ["--audit", str(self.audits[problem]), "--out", str(out), *self.bench.options]
        words += ["--gate", str(gate)] if gate else []
        words += ["--timing-budget-s", "0.5"]  # ten rounds tell a multiple from one
        start = [str(HERE / "without.py"), without] if without else ["-m", "kbverified"]
        warm = {SOCKET_VARIABLE: str(self.warm)} if without and self.warm else {}
        done = subprocess.run(
            [sys.executable, *start, *words],
            capture_output=True,
            text=True,
            env={**self.bench.environment, **warm},
            cwd=ROOT,
            check=False,
            timeout=300,
        )
        return done, out

    def timed(self, candidate: Path, problem: str, without: str = "", stage: str = "time-fp32") -> dict[str, Any]:
        """Gate, which every one of them passes, then a timing stage; its record."""
        gate = self.bench.out / "hidden-gate" / f"{candidate.parent.name}-{candidate.stem}.json"
        if not gate.exists():
            self.stage("hidden-gate", candidate, problem)
        found = json.loads(gate.read_text())
        assert judged(found) == "pass", f"the gate was to let it through: {json.dumps(found)[-2000:]}"
        return json.loads(self.stage(stage, candidate, problem, gate, without).read_text())

    def gated(self, candidate: Path, problem: str, without: str = "") -> dict[str, Any]:
        """The gate's record; NO_RECORD where the judge is dead before it has written one."""
        done, out = self._run("hidden-gate", candidate, problem, None, without)
        if done.returncode == 0:
            return json.loads(out.read_text())
        assert not out.exists(), f"exit {done.returncode}, and a record all the same"
        return {**NO_RECORD, "detail": done.stderr[-3000:]}


@contextlib.contextmanager
def warm_process(folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Serve commands without defences; path of the socket. The process ends with the last of those who use it."""
    path = folder / "without.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen(16)
        words = [sys.executable, "-P", str(HERE / "without.py"), SERVE]
        process = subprocess.Popen(words, stdin=listener.fileno(), env=environment, cwd="/", start_new_session=True)
    try:
        yield path
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def answers_for_all() -> Iterator[int]:
    """A port of this machine at which somebody tells an answer to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]  # the kernel takes connections for it, which is all that is asked for


def speedup(record: dict[str, Any]) -> float:
    """Baseline's over candidate's median, of a record with rounds."""
    baseline, candidate = (
        statistics.median(t for r in record["rounds"] for t in r[side]) for side in ("baseline_ms", "candidate_ms")
    )
    return baseline / candidate


def judged(gate: dict[str, Any], test: str = "hidden") -> str | None:
    """A gate record's verdict of a test."""
    if gate["verdict"] == "no record":
        return "no record"
    verdict = hidden_verdict({"compile": {"verdict": "pass"}, "hidden-gate": gate})
    if test == "hardened" and verdict == "pass":
        return hardened_verdict(GateRecord.model_validate(gate), None).verdict
    if test == "flags" and verdict == "pass" and gate["flags_before"] != gate["flags_after"]:
        return "flags_changed"
    return verdict


def told(record: dict[str, Any]) -> str:
    """What a failed assertion shows."""
    if "rounds" not in record:
        worst = [(t["distribution"], t["critical_tolerance"]) for t in record.get("trials", [])]
        laws = [(t["distribution"], t["failure"], t["oracle"]) for t in record.get("hardened", [])]
        return f"{record['verdict']}, {worst}, {laws}: {record['detail']}; {record.get('output_tail', '')[-1000:]}"
    ratio = f"{speedup(record):.2f}x" if record["rounds"] else "no rounds"
    return f"{record['verdict']}, {ratio}: {record['detail']}; {record['output_tail'][-1000:]}"


def skip_what_no_process_may(attack: Attack, kind: str) -> None:
    """Where this process does not hold CAP_SYS_PTRACE, a worker without a sandbox does not either."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:")]
    if kind == "without its defence" and attack.needs == "ptrace" and not int(line.split()[1], 16) >> 19 & 1:
        pytest.skip("no process of this machine's may trace its parent")


def run(where: Range, attack: Attack, kind: str) -> dict[str, Any]:
    """The record of one of KINDS, of the stage that is to catch the attack."""
    where.restore_targets()
    source = attack.twin if kind == "twin" else attack.path
    without = attack.switch if kind == "without its defence" and attack.switch != "hardened" else ""
    if attack.timed:
        return where.timed(source, attack.problem, without, attack.stage)
    seen = where.bench.out / "hidden-gate" / f"{attack.path.parent.name}-{attack.path.stem}.json"
    if kind == "without its defence" and attack.switch == "hardened" and seen.exists():
        return json.loads(seen.read_text())
    return where.gated(source, attack.problem, without)


def check(attack: Attack, kind: str, record: dict[str, Any]) -> None:
    """Caught: its named verdict. Without its defence: what it was after. Its twin: a pass."""
    (check_timed if attack.timed else check_gated)(attack, kind, record)


def check_timed(attack: Attack, kind: str, record: dict[str, Any]) -> None:
    """As ``check``: a pass with a time of its own is no escape, and a pass that is paid for is one.

    A twin passes at about the reference's speed.
    """
    if kind == "attack" and attack.verdict != "true_time":
        assert record["verdict"] == attack.verdict, told(record)
        if attack.verdict == "time_disputed":
            assert "by the judge's clock" in record["detail"]
            assert record["judge_bound"]["t_judge_ms"] > 2 * record["judge_bound"]["claim_ms"], record["judge_bound"]
        return
    assert record["verdict"] == "pass", told(record)
    escaped = speedup(record) > float(attack.escapes)
    assert escaped == (kind == "without its defence"), told(record)
    if escaped and "bound" in attack.switch:  # the record says what it let through
        assert record["judge_bound"]["undetected_gain_at_most"] > float(attack.escapes), record["judge_bound"]


def check_gated(attack: Attack, kind: str, record: dict[str, Any]) -> None:
    """As ``check``, by the verdict of the test that is meant."""
    if kind == "attack":
        assert judged(record, attack.test) == attack.verdict, told(record)
    elif kind == "twin":
        assert judged(record, attack.test) == "pass", told(record)
    else:
        test = "hidden" if attack.switch == "hardened" else attack.test
        assert judged(record, test) == attack.escapes, told(record)
