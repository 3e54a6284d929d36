"""A small copy of the project whose jobs go through SLURM, and what SLURM and its logs say about them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cluster import Cluster, until
from small_tree import PROJECT, Tree, make_tree

# Two that are right, one of them in C++, and two that are caught: fewer than the demo's, whose 130 jobs would take an
# hour on two cores, since each of them starts Snakemake twice.
CONFIG = """
selection:
  suites: [bundled]
  generators: [bundled-honest, bundled-dishonest]
  problems: [level1_1]
  samples: [0, 1]
generators_tsv: config/bundled.tsv
device: cpu
evaluator: true
"""
GENERATORS = "generator\torigin\nbundled-honest\tbundled\nbundled-dishonest\tbundled\n"
GPU_STAGES = ("hidden-gate", "time-fp32", "time-tf32", "memory")
TAILS = [f"bundled-{kind}/bundled/level1_1/{sample}" for kind in ("honest", "dishonest") for sample in (0, 1)]
RUN_LIMIT_S = 900
"""Of one run. On two idle cores the longest takes two minutes, on cores that many share as long as this."""


def bundled_tree(path: Path) -> Tree:
    """A tree with some of the demo's candidates, in which nothing has run."""
    tree = make_tree(path)
    shutil.rmtree(path / "problems/tiny")
    shutil.rmtree(path / "generations")
    shutil.copytree(PROJECT / "problems/bundled", path / "problems/bundled")
    for tail in TAILS:
        file = f"generations/{tail}.py"
        tree.write(file, (PROJECT / file).read_bytes())
    tree.write("config/config.yaml", CONFIG)
    tree.write("config/bundled.tsv", GENERATORS)
    return tree


@dataclass(frozen=True)
class SlurmTree(Tree):
    """A tree whose runs use the SLURM profile, on a cluster of the tests' own."""

    cluster: Cluster

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/on-test-cluster", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """Temporary files, leases and evaluators in folders of its own, to see what is left in them."""
        scratch = self.path.parent / "scratch"
        own = {"TMPDIR": "tmp", "KBV_LEASE_DIR": "leases", "KBV_EVALUATOR_DIR": "evaluators"}
        for folder in own.values():
            (scratch / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        places = {name: str(scratch / folder) for name, folder in own.items()}
        return {**os.environ, **self.cluster.environment, **places, "KBV_EVALUATOR_IDLE_S": "2", **more}

    def write_profile(self) -> None:
        """The shipped profile with what a site fills in, and a look at the jobs every few seconds.

        The rules ask for no GPU on the cpu device; here the measuring ones do, so that SLURM has some to hand out.
        """
        profile = yaml.safe_load((PROJECT / "profiles/slurm/config.yaml").read_text())
        profile["default-resources"].append("slurm_partition=cpu")
        for rule in ("hidden_gate", "time", "memory"):
            profile["set-resources"][rule] = {**profile["set-resources"][rule], "slurm_partition": "gpu", "gpu": 1}
        profile["slurm-init-seconds-before-status-checks"] = 1
        self.write("profiles/on-test-cluster/config.yaml", yaml.safe_dump(profile))

    # --- running ----------------------------------------------------------------------------------------------
    def start(self, *arguments: str) -> Running:
        output = (self.path / "run.log").open("w")
        process = subprocess.Popen(
            self.command(*arguments), cwd=self.path, env=self.environment(), stdout=output, stderr=subprocess.STDOUT
        )
        return Running(self, process, time.monotonic() + RUN_LIMIT_S)

    def whole_run(self, *arguments: str) -> str:
        """Run to a good end; what it printed."""
        running = self.start(*arguments)
        assert running.end() == 0, running.text()
        return running.text()

    # --- records ----------------------------------------------------------------------------------------------
    def forget(self, tail: str) -> set[str]:
        """Delete a candidate's records from the gate on; their paths."""
        paths = {f"results/{stage}/{tail}.json" for stage in GPU_STAGES}
        for path in paths:
            (self.path / path).unlink()
        return paths

    def results(self) -> dict[str, dict[str, Any]]:
        return results_of(self)

    # --- what SLURM says --------------------------------------------------------------------------------------
    def records_by_job(self) -> dict[str, set[str]]:
        """The records that each SLURM job set out to write, by its log."""
        return {log.stem: set(re.findall(r"output: (results/\S+\.json)", log.read_text())) for log in self.logs()}

    def logs(self) -> list[Path]:
        return sorted((self.path / "logs/slurm").rglob("*.log"))

    def jobs(self) -> dict[str, dict[str, str]]:
        """Every job that SLURM still knows, with its fields."""
        lines = self.cluster.ask("scontrol", "show", "job", "-d", "-o").splitlines()
        found = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        return {fields["JobId"]: fields for fields in found if fields.get("WorkDir") == str(self.path)}

    def running_job(self, record: str) -> str | None:
        """The job that is about to write a record."""
        jobs = self.jobs()
        writing = (job for job, records in self.records_by_job().items() if record in records)
        return next((job for job in writing if jobs.get(job, {}).get("JobState") == "RUNNING"), None)


@dataclass(frozen=True)
class WholeRun:
    """A tree after one whole run through SLURM, and what SLURM and its logs said then."""

    tree: SlurmTree
    jobs: dict[str, dict[str, str]]
    records_by_job: dict[str, set[str]]


@dataclass
class Running:
    """A run in the background."""

    tree: SlurmTree
    process: subprocess.Popen[bytes]
    deadline: float

    def wait_for(self, true: Callable[[], Any], what: str) -> Any:
        """The first true answer; an error where the run ends before, or its limit is reached."""
        while not (answer := true()):
            assert self.process.poll() is None, f"the run ended before {what}\n{self.text()}"
            assert time.monotonic() < self.deadline, f"waited in vain: {what}\n{self.text()}"
            time.sleep(0.2)
        return answer

    def end(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(max(self.deadline - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {RUN_LIMIT_S} s\n{self.text()}") from None

    def text(self) -> str:
        return (self.tree.path / "run.log").read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def results_of(tree: Tree) -> dict[str, dict[str, Any]]:
    """What each record of a candidate says, without times, places, and the digits that other hidden inputs change.

    On a machine that others use a time may be disputed: that is the one verdict that may differ from run to run.
    """
    found = {}
    for tail in TAILS:
        for stage in ("compile", *GPU_STAGES):
            record: dict[str, Any] = tree.read(f"results/{stage}/{tail}.json")
            said = {key: record.get(key) for key in ("status", "verdict", "reason")}
            if stage.startswith("time-") and said["verdict"] == "time_disputed":
                said["verdict"] = "pass"
            trials = record.get("trials") or ()
            said["trials"] = [(t["distribution"], t["failure"], three_digits(t["critical_tolerance"])) for t in trials]
            found[f"{stage}/{tail}"] = said
    return found


def three_digits(number: float | None) -> str | None:
    return None if number is None else f"{number:.3g}"


# --- what is left behind ----------------------------------------------------------------------------------------
def assert_nothing_is_left(tree: SlurmTree) -> None:
    """No process, socket, lock or temporary file of a run that has ended; evaluators may idle for some seconds."""
    until(lambda: not left_behind(tree), 60, "nothing left", lambda: "\n".join(left_behind(tree)))


def left_behind(tree: SlurmTree) -> list[str]:
    """An evaluator shows by its socket. Not ours, and empty: folders that torch and Snakemake make for themselves; of
    .snakemake/tmp.* it makes two where its threads submit the first two jobs at once, and forgets one."""
    scratch, notes = tree.path.parent / "scratch", tree.path / ".snakemake"
    others = ("torchinductor_", "snakemake")
    left = [path for path in (scratch / "tmp").rglob("*") if not (path.is_dir() and path.name.startswith(others))]
    left += (scratch / "evaluators").glob("*.sock")
    left += (tree.path / "results").rglob(".*")
    left += (path for name in ("incomplete", "locks") for path in (notes / name).glob("*"))
    return [*processes_of(tree), *map(str, left)]


def processes_of(tree: SlurmTree) -> Iterator[str]:
    """Processes that work in a tree or use its folders, but for those of the test itself, each with its command."""
    place = os.fsencode(tree.path.parent)
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) in (os.getpid(), os.getppid()):
            continue
        try:
            command = (folder / "cmdline").read_bytes()
            texts = (command, (folder / "environ").read_bytes(), os.fsencode(os.readlink(folder / "cwd")))
        except OSError:
            continue
        if any(place in text for text in texts) and b"slurmd" not in command and b"slurmctld" not in command:
            yield f"{folder.name} {command.replace(bytes(1), b' ').decode(errors='replace')}"
