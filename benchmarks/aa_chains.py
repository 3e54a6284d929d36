"""The chains of ``benchmarks.aa_run``: a problem's audit, compile and gate once, its samples' times, within minutes.

Torch-free, as all that only calls the stage command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from benchmarks import stage_calls
from benchmarks.aa_tree import TIME_STAGES, Job, Tree
from benchmarks.stage_calls import Calls
from kbverified.deadline import Stopped, Told
from kbverified.keys import ProblemKey

PROGRESS_EVERY_S = 20.0
START_NOTHING_S = 30.0
"""So long before the end: what a stage takes whose turn with the device comes after three others'."""
KILL_S = 10.0
"""So long before the end what still runs is killed; earlier where more is to be packed."""
PACKED_BYTES_PER_S = 1e6
"""1.1e6 were packed of 57 MB, 250 problems with four samples each, on two cores that others used as well."""
TIMEOUTS_S = {"audit-problem": 600, "compile": 900, "hidden-gate": 300, "time-fp32": 300, "time-tf32": 300}
"""Of one answer of a worker, and of an audit as a whole: as config/kernelbench.yaml has them."""


class Clock:
    """When what has to end. ``told`` ends it at once."""

    def __init__(self, begin_s: float, minutes: float, tree: Tree):
        self.begin_s, self.end_s, self._tree = begin_s, begin_s + 60 * minutes, tree
        self.told: str | None = None
        self.stopped: Stopped | None = None
        """As ``deadline.Ended`` has it: ``asked`` where something was not started any more."""

    def _left_s(self) -> float:
        """Until packing has to begin."""
        return self.end_s - time.monotonic() - max(KILL_S, KILL_S / 2 + self._tree.size_bytes / PACKED_BYTES_PER_S)

    def may_start(self) -> bool:
        may = self.told is None and self._left_s() > START_NOTHING_S - KILL_S
        if not may:
            self.stopped = self.stopped or "asked"
        return may

    def cut_off(self) -> bool:
        over = self.told is not None or self._left_s() <= 0
        if over:
            self.stopped = "jobs killed"
        return over


class Runner:
    """All problems' chains. A chain goes on as soon as it can; whose turn it is with a device, the lease says."""

    def __init__(self, tree: Tree, calls: Calls, clock: Clock, left_out: dict[ProblemKey, str]):
        self.tree, self.calls, self.clock, self.left_out = tree, calls, clock, dict(left_out)
        self.faults: dict[str, str] = {}
        """Record to what was said where a command left none: infrastructure, not a verdict."""
        self.not_timed: dict[str, str] = {}
        """Timing record that is there without a time to why; an unstable one has its own column in benchmarks.aa."""
        self._turns = {key: threading.Lock() for key in tree.problems}

    def run(self, jobs: int) -> None:
        """Every sample of every problem, as far as time allows. What goes wrong beside a stage is raised at the end."""
        pool = ThreadPoolExecutor(jobs)
        order = [(key, sample) for sample in range(self.tree.samples) for key in self.tree.problems]
        try:
            self._until_done([pool.submit(self._sample, *one) for one in order])
        except Told as told:
            self.clock.told = str(told)
        except BaseException:
            self.clock.told = "a fault of this command"
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _until_done(self, chains: Sequence[Future[None]]) -> None:
        next_s = time.monotonic() + PROGRESS_EVERY_S
        waiting = set(chains)
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_EXCEPTION)
            for one in done:
                one.result()
            if time.monotonic() >= next_s:
                next_s += PROGRESS_EVERY_S
                print(f"aa_run: {self.progress()}", flush=True)

    def progress(self) -> str:
        there, of = self.counts()
        left = max(0.0, self.clock.end_s - time.monotonic()) / 60
        faults = f", {len(self.faults)} without a record" if self.faults else ""
        return f"{there} of {of} timing stages are done{faults}, {left:.1f} minutes are left"

    def counts(self) -> tuple[int, int]:
        """How many timing records are there, of how many: those of problems that are not left out."""
        timed = [key for key in self.tree.problems if key not in self.left_out]
        names = [job.name for key in timed for job in self.tree.jobs(key) if job.stage in TIME_STAGES]
        return sum(name in self.tree.records for name in names), len(names)

    def summary(self) -> list[str]:
        """What there is, what there is not, and why, line by line."""
        there, of = self.counts()
        lines = [f"{there} of {of} timing records are there, {of - there} are missing"]
        lines += [f"left out: {key}: {why}" for key, why in sorted(self.left_out.items())]
        lines += [f"no time: {name}: {why}" for name, why in sorted(self.not_timed.items())]
        lines += [f"no record: {name}: {why}" for name, why in sorted(self.faults.items())]
        if len(environments := self.tree.environments()) > 1:
            told_apart = "; ".join(" ".join(one) for one in sorted(environments))
            lines.append(f"times of {len(environments)} environments, which make no table together: {told_apart}")
        return lines

    # --- one chain ----------------------------------------------------------------------------------------------
    def _sample(self, key: ProblemKey, sample: int) -> None:
        with self._turns[key]:  # a second sample waits for the gate, which the first asked for before
            ready = all(self._made(job) and self._passes(job) for job in self.tree.jobs(key) if not _is_timing(job))
        if not ready:
            return
        for job in self.tree.jobs(key):
            if _is_timing(job) and job.sample == sample and self._made(job):
                known = self.tree.records[job.name]
                if known.why_not is not None and not known.unstable:
                    self.not_timed[job.name] = known.why_not

    def _passes(self, job: Job) -> bool:
        why = self.tree.records[job.name].why_not
        if why is not None and job.problem not in self.left_out:
            self.left_out[job.problem] = why
            print(f"aa_run: {job.problem} is left out: {why}", flush=True)
        return why is None

    def _made(self, job: Job) -> bool:
        """Whether the record is there, made now where it was not."""
        if job.name in self.tree.records:
            return True
        if not self.clock.may_start():
            return False
        out, log = self.tree.root / job.name, job.log(self.tree.root)
        out.unlink(missing_ok=True)
        code = self.calls.call(self._words(job), out, log)
        if code == 0 and out.is_file() and self.tree.add(job):
            self.faults.pop(job.name, None)
            return True
        out.unlink(missing_ok=True)
        if code is not None:
            self.faults[job.name] = f"exit {code}: {stage_calls.told(log)}"
        return False

    def _words(self, job: Job) -> list[str]:
        root = self.tree.root
        problem = ["--problem", str(job.problem.source_path(root))]
        limit = ["--timeout-s", str(TIMEOUTS_S[job.stage])]
        if job.stage == "audit-problem":
            return ["audit-problem", *problem, *limit]
        words = ["stage", job.stage, "--candidate", str(job.candidate.source_path(root)), *problem, *limit]
        words += ["--audit", str(root / Job("audit-problem", job.problem).name)]
        if job.stage != "compile":
            words += ["--compiled", str(root / Job("compile", job.problem).name)]
        if _is_timing(job):
            words += ["--gate", str(root / Job("hidden-gate", job.problem).name)]
        return words


def _is_timing(job: Job) -> bool:
    return job.stage in TIME_STAGES
