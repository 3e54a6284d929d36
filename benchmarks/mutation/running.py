"""Parents and mutants through the real stage command, some at a time, each result kept as the record that it is.

What is there already is not run again: a compile record of the same source, a gate record of the same source, the same
protocol constants and the same gate code.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.parents import Parent, file_sha256
from benchmarks.stage_calls import Calls, told
from kbverified import protocol, source_digest
from kbverified.protocol import TAU
from kbverified.records.files import read, write_text
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import CompileRecord, GateRecord
from kbverified.verdicts import Judgement, Test, judge


@dataclass(frozen=True)
class Work:
    """The folder of one run. ``name`` of a kernel is a mutant's id, or a parent's name with its slash replaced."""

    root: Path

    def source(self, name: str) -> Path:
        return self.root / "sources" / f"{name}.py"

    def record(self, stage: str, name: str) -> Path:
        return self.root / stage / f"{name}.json"

    def audit(self, problem: Path) -> Path:
        """With its suite, or variant: two of them have a level1_1."""
        return self.root / "audit" / f"{problem.parent.name}-{problem.stem}.json"

    @property
    def variants(self) -> Path:
        return self.root / "variants.json"

    @property
    def reached(self) -> Path:
        return self.root / "reached.json"

    @property
    def seen(self) -> Path:
        return self.root / "seen.jsonl"

    @property
    def screened(self) -> Path:
        return self.root / "screened.jsonl"


@dataclass(frozen=True)
class Kernel:
    """A source to be judged: a parent's (``mutant`` is None) or a mutant's."""

    name: str
    parent: Parent
    mutant: Mutant | None


def kernels(work: Work, parents: Iterable[Parent], chosen: dict[str, list[Mutant]]) -> list[Kernel]:
    """Parents first, each parent's mutants after, with their sources written. Raises ValueError, OSError."""
    found: list[Kernel] = []
    for parent in parents:
        text = parent.path.read_text(encoding="utf-8")
        found.append(honest(work, parent))
        for mutant in chosen[parent.name]:
            found.append(_with_source(work, Kernel(mutant.id, parent, mutant), mutant.source(text)))
    return found


def honest(work: Work, parent: Parent) -> Kernel:
    """A parent's own kernel, with its source written. Raises OSError."""
    return _with_source(work, Kernel(parent.kernel, parent, None), parent.path.read_text(encoding="utf-8"))


def _with_source(work: Work, kernel: Kernel, source: str) -> Kernel:
    path = work.source(kernel.name)
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        write_text(path, source)
    path.chmod(0o644)
    return kernel


def gate_digest() -> str:
    """What a gate record's verdict depends on beside the source: constants and code of the stage."""
    return _digest("hidden-gate")


def _digest(stage: str) -> str:
    return f"{protocol.digest(stage)[:32]}-{source_digest.digest(stage)[:32]}"


class Stages:
    """Calls ``kbverified audit-problem`` and ``kbverified stage``; a command that leaves no record is counted."""

    def __init__(self, work: Work, device: str, arch: str | None, jobs: int, until_s: float = float("inf")):
        self.work, self.device, self.arch, self.jobs, self.until_s = work, device, arch, jobs, until_s
        self.faults: list[str] = []
        """Kernels without a record of a stage that was run: infrastructure, not a verdict."""
        self._asking = threading.Lock()
        self._auditing: dict[Path, threading.Lock] = {}

    def audits(self, parents: Iterable[Parent]) -> None:
        """An audit record of each problem. Raises RuntimeError where one cannot be made."""
        for problem in dict.fromkeys(parent.problem for parent in parents):
            self._audit(problem)

    def _audit(self, problem: Path) -> None:
        """The problem's audit, once, whoever asks first. Raises RuntimeError where it cannot be made."""
        with self._asking:
            lock = self._auditing.setdefault(problem, threading.Lock())
        with lock:
            out, mark = self.work.audit(problem), self.work.audit(problem).with_suffix(".digest")
            wanted = f"{_digest('audit-problem')} {file_sha256(problem)}"
            if not (out.is_file() and mark.is_file() and mark.read_text() == wanted):
                code = self._call("audit", out.stem, ["audit-problem", "--problem", str(problem)], out)
                if code != 0:
                    raise RuntimeError(f"{problem}: its audit ended with {code}: {self._log('audit', out.stem)}")
                mark.write_text(wanted)

    def compile(self, todo: Sequence[Kernel], builds: Callable[[Kernel], bool] = lambda kernel: False) -> None:
        """A compile record of each kernel, where it is not there, and the audits that it takes.

        ``builds``: whose build has to be there as well. Records outlive builds, which no archive holds.
        """

        def is_there(kernel: Kernel) -> bool:
            record = compiled(self.work, kernel)
            if record is None or not _is_of(self.work, kernel, record):
                return False
            built = not record.builds or Path(record.build_directory or "").is_dir()  # Triton asks for none
            return built or record.verdict != "pass" or not builds(kernel)

        self._each("compile", todo, is_there, lambda kernel: [])

    def gate(self, todo: Sequence[Kernel]) -> None:
        """A gate record of each kernel that compiled, where it is not there under the same gate."""
        digest = gate_digest()

        def done(kernel: Kernel) -> None:
            _mark(self.work, kernel).write_text(_marked(self.work, kernel, digest))

        self._each(
            "hidden-gate",
            todo,
            lambda kernel: is_gated(self.work, kernel, digest),
            lambda kernel: ["--compiled", str(self.work.record("compile", kernel.name))],
            done,
        )

    def _each(
        self,
        stage: str,
        todo: Sequence[Kernel],
        is_there: Callable[[Kernel], bool],
        more: Callable[[Kernel], list[str]],
        done: Callable[[Kernel], None] = lambda kernel: None,
    ) -> None:
        # By their ids, which are hashes: what is done when time is over is a sample of all.
        order = sorted(todo, key=lambda kernel: (kernel.mutant is not None, kernel.name))
        waiting = [kernel for kernel in order if not is_there(kernel)]
        print(f"{stage}: {len(todo) - len(waiting)} of {len(todo)} are there", flush=True)
        start = time.monotonic()

        def run(kernel: Kernel) -> None:
            if time.monotonic() > self.until_s:
                return
            out = self.work.record(stage, kernel.name)
            out.unlink(missing_ok=True)
            try:
                self._audit(kernel.parent.problem)
            except RuntimeError as error:
                self.faults.append(f"{stage} {kernel.name}: {error}")
                return
            words = ["stage", stage, "--candidate", str(self.work.source(kernel.name))]
            words += ["--problem", str(kernel.parent.problem), "--audit", str(self.work.audit(kernel.parent.problem))]
            code = self._call(stage, kernel.name, [*words, *more(kernel)], out)
            if code != 0:
                self.faults.append(f"{stage} {kernel.name}: exit {code}: {self._log(stage, kernel.name)}")
            else:
                done(kernel)

        with ThreadPoolExecutor(self.jobs) as pool:
            for n, _ in enumerate(pool.map(run, waiting), 1):
                if n % 10 == 0 or n == len(waiting):
                    print(f"{stage}: {n} of {len(waiting)}, {time.monotonic() - start:.0f} s", flush=True)

    def _call(self, stage: str, name: str, words: list[str], out: Path) -> int | None:
        log = self.work.root / "logs" / stage / f"{name}.log"
        calls = Calls(self.device, self.work.root / "build", self.arch, ("--timeout-s", "30"))
        return calls.call(words, out, log)

    def _log(self, stage: str, name: str) -> str:
        return told(self.work.root / "logs" / stage / f"{name}.log")


def compiled(work: Work, kernel: Kernel) -> CompileRecord | None:
    """Its compile record; None where there is none. Raises RecordError for one that cannot be true."""
    path = work.record("compile", kernel.name)
    return read(path, CompileRecord) if path.is_file() else None


def gated(work: Work, kernel: Kernel) -> GateRecord | None:
    """Its gate record; None where there is none. Raises RecordError for one that cannot be true."""
    path = work.record("hidden-gate", kernel.name)
    return read(path, GateRecord) if path.is_file() else None


def is_gated(work: Work, kernel: Kernel, digest: str) -> bool:
    """Whether it has a gate record of this source on this problem under this gate (``gate_digest``)."""
    mark = _mark(work, kernel)
    # The mark first: a record of another gate may have another shape.
    return mark.is_file() and mark.read_text() == _marked(work, kernel, digest) and gated(work, kernel) is not None


def _mark(work: Work, kernel: Kernel) -> Path:
    return work.record("hidden-gate", kernel.name).with_suffix(".digest")


def _marked(work: Work, kernel: Kernel, digest: str) -> str:
    return f"{digest} {file_sha256(work.source(kernel.name))} {file_sha256(kernel.parent.problem)}"


def _is_of(work: Work, kernel: Kernel, record: CompileRecord) -> bool:
    made = record.provenance
    ours = (file_sha256(work.source(kernel.name)), file_sha256(kernel.parent.problem))
    return (made.candidate_sha256, made.problem_sha256) == ours


def judged(work: Work, kernel: Kernel) -> dict[Test, Judgement] | None:
    """Its verdicts by test; None where it has no gate record. Raises RecordError, FileNotFoundError."""
    gate = gated(work, kernel)
    if gate is None:
        return None
    audit = read(work.audit(kernel.parent.problem), ProblemRecord)
    path = work.record("hidden-gate", kernel.name)
    return judge(compiled(work, kernel), gate, audit.applicable(), TAU[gate.provenance.dtype], path, audit)


def that_built(work: Work, todo: Iterable[Kernel]) -> Iterator[Kernel]:
    """Those whose compile record says pass."""
    for kernel in todo:
        record = compiled(work, kernel)
        if record is not None and record.verdict == "pass":
            yield kernel
