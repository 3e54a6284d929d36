"""What a call of ``benchmarks.aa_run`` has: sources, records, and archives of them. Torch-free.

The tree has the layout of a run, so that the archives are those of ``device-run`` and everybody reads them. A record
counts as there when it is about these very sources and was made by this very code: a record knows its protocol
constants, a mark beside it (``0.digest``) the code of its stage, and an archive's report knows that of all it holds.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from benchmarks.references import GENERATOR, reference_files
from kbverified import archive, protocol, run_report, source_digest
from kbverified.archive import ArchiveError, Place
from kbverified.deadline import Ended
from kbverified.device_run import Plan, collect
from kbverified.file_plan import commit
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.base import Provenance, Record
from kbverified.records.files import RecordError, write_bytes, write_text
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import StageRecord, TimeRecord
from kbverified.run_report import RunReport
from kbverified.run_state import Restored

TIME_STAGES = ("time-fp32", "time-tf32")
ONCE = ("compile", "hidden-gate")
"""Stages of the first sample alone: all samples are the same bytes."""
STEM = "records-aa"
_TOLD_CHARACTERS = 300


class Stale(ValueError):
    """An archive that a new one would replace, with records that it would not hold. The message says what to do."""


@dataclass(frozen=True)
class Job:
    """One record: an audit (no sample) or a stage of a sample."""

    stage: str
    problem: ProblemKey
    sample: int = 0

    @property
    def name(self) -> str:
        """Its path in a tree and in an archive."""
        if self.stage == "audit-problem":
            return self.problem.record_path().as_posix()
        return self.candidate.record_path(self.stage).as_posix()

    @property
    def candidate(self) -> CandidateKey:
        return CandidateKey(GENERATOR, self.problem.suite, self.problem.problem, self.sample)

    def log(self, root: Path) -> Path:
        """Where ``device_run.collect`` looks for it."""
        return root / Path("logs", *Path(self.name).with_suffix(".log").parts[1:])


@dataclass(frozen=True)
class Known:
    """What of a record is kept in mind."""

    why_not: str | None
    """Why what comes after it has no meaning, or it gives no time; None where it has, and does."""
    unstable: bool
    started_at: str
    environment: tuple[str, ...] | None
    """Of a timing record: device, name, driver, torch, CUDA."""


class Tree:
    """The records of some problems and samples below a folder, and which of them are there."""

    def __init__(self, root: Path, samples: int, device: str, timing_budget_s: float):
        self.root, self.samples, self.device, self.budget_s = root, samples, device, timing_budget_s
        self.problems: tuple[ProblemKey, ...] = ()
        self.records: dict[str, Known] = {}
        """What is there, by name."""
        self.size_bytes = 0
        """Of those: what packing will have to do."""
        self._counting = threading.Lock()
        self._sha256: dict[ProblemKey, tuple[str, str]] = {}
        """Of a problem's source and of its renamed reference."""

    # --- sources ------------------------------------------------------------------------------------------------
    def write_sources(self, folder: Path, problems: Sequence[ProblemKey]) -> dict[ProblemKey, str]:
        """Copy the problems and write their references; (problem: why it has none). Raises OSError."""
        files = {key.source_path(self.root): (folder / f"{key.problem}.py").read_bytes() for key in problems}
        if (folder / "manifest.csv").is_file():
            files[self.root / "problems" / folder.name / "manifest.csv"] = (folder / "manifest.csv").read_bytes()
        commit(files, self.root / "problems")
        references: dict[Path, bytes] = {}
        left_out = {}
        for key in problems:
            try:
                made = reference_files(key, self.root, range(self.samples))
            except ValueError as error:
                left_out[key] = f"its reference is no candidate: {error}"
                continue
            references |= made
            reference = made[Job("compile", key).candidate.source_path(self.root)]
            self._sha256[key] = (_sha256(files[key.source_path(self.root)]), _sha256(reference))
        commit(references, self.root / "generations")
        self.problems = tuple(key for key in problems if key not in left_out)
        return left_out

    def jobs(self, problem: ProblemKey) -> list[Job]:
        """Every record of a problem that is to be there, in the order in which they are made."""
        once = [Job("audit-problem", problem), *(Job(stage, problem) for stage in ONCE)]
        return once + [Job(stage, problem, sample) for sample in range(self.samples) for stage in TIME_STAGES]

    # --- records ------------------------------------------------------------------------------------------------
    def look(self) -> None:
        """Find what an earlier call has left here; what does not count is deleted."""
        for job in (job for problem in self.problems for job in self.jobs(problem)):
            path, mark = self.root / job.name, self._mark(job)
            if path.is_file() and not (mark.is_file() and self.add(job, mark.read_text())):
                path.unlink()

    def add(self, job: Job, code: str | None = None) -> bool:
        """Take in the record that lies at a job's place, made by this code (None: the present one), if it counts."""
        data = (self.root / job.name).read_bytes()
        try:
            found, record = _parsed(job.name, data, str(self.root))
        except RecordError:
            return False
        if code is None:
            code = source_digest.digest(job.stage)
            write_text(self._mark(job), code)
        if self._stale(found, record, code):
            return False
        self._there(job.name, _known(record), len(data))
        return True

    def _there(self, name: str, known: Known, size_bytes: int) -> None:
        with self._counting:
            self.records[name] = known
            self.size_bytes += size_bytes

    def _mark(self, job: Job) -> Path:
        return (self.root / job.name).with_suffix(".digest")

    def _stale(self, found: Place, record: Record, code: str | None) -> str | None:
        """Why a record of these keys does not count; None where it does."""
        stage = found.stage or "audit-problem"
        provenance: Provenance = record.provenance  # type: ignore[attr-defined]
        assert found.problem is not None
        problem, reference = self._sha256[found.problem]
        if provenance.problem_sha256 != problem:
            return "of another problem source"
        if found.candidate is not None and provenance.candidate_sha256 != reference:
            return "of another candidate source"
        if provenance.protocol_digest != protocol.digest(stage):
            return "of another protocol"
        if code != source_digest.digest(stage):
            return "of other or unknown code"
        if provenance.device is not None and provenance.device.kind != self.device:
            return "of another kind of device"
        if isinstance(record, TimeRecord) and record.budget_s not in (None, self.budget_s):
            return "of another timing budget"
        return None

    def environments(self) -> set[tuple[str, ...]]:
        """Of the timing records: device, name, driver, torch, CUDA. More than one do not merge into one table."""
        return {known.environment for known in self.records.values() if known.environment is not None}

    # --- archives -----------------------------------------------------------------------------------------------
    def restore(self, archives: Iterable[Path], out: Path) -> Restored:
        """Take over from archives what counts and is not there; of two the one that started later.

        Raises ArchiveError, RecordError, FileNotFoundError, and Stale where an archive that lies in ``out``, to be
        replaced at the end, holds what does not count here.
        """
        result = Restored()
        jobs = {job.name: job for problem in self.problems for job in self.jobs(problem)}
        newest: dict[str, tuple[Known, bytes]] = {}
        codes: dict[Path, dict[str, str]] = {}
        for path in sorted(set(archives)):
            lost: Counter[str] = Counter()
            for found, data in archive.read(path):
                if found.kind == "report":  # of parts, the first has it
                    codes[_whole(path)] = _report(data, path).source_digests
                if found.kind not in ("audit", "record"):
                    continue
                record = found.parse(data, str(path))
                code = codes.get(_whole(path), {}).get(found.stage or "audit-problem")
                why = self._stale(found, record, code) if found.name in jobs else "not asked for"
                if why:
                    lost[why] += 1
                    continue
                known = _known(record)
                if found.name not in newest or newest[found.name][0].started_at < known.started_at:
                    newest[found.name] = (known, data)
            if lost and path.parent.resolve() == out.resolve():
                reasons = ", ".join(f"{count} {why}" for why, count in sorted(lost.items()))
                raise Stale(
                    f"{path}: a new archive would replace it and not hold {lost.total()} of its records ({reasons}). "
                    "Move it away, or name another --out."
                )
            result.left_out.update(lost)
        for name, (known, data) in newest.items():
            if name in self.records:
                result.left_out["already here"] += 1
                continue
            write_bytes(self.root / name, data)
            write_text(self._mark(jobs[name]), source_digest.digest(jobs[name].stage))
            self._there(name, known, len(data))
            result.records += 1
        return result

    def pack(
        self,
        out: Path,
        *,
        conditions: Path,
        wanted: Path,
        started_at: datetime,
        revision: str | None,
        restored: Restored,
        restore_s: float,
        ended: Ended | None,
        told: str | None,
    ) -> tuple[list[Path], list[str]]:
        """Write the archive of what is there; its paths and what was said about it. Raises OSError, ArchiveError."""
        candidates = [Job("compile", key, n).candidate for key in self.problems for n in range(self.samples)]
        plan = Plan(self.problems, tuple(candidates), (*ONCE, *TIME_STAGES))
        names = [job.name for problem in self.problems for job in self.jobs(problem)]
        members = collect(self.root, plan, self.root / "no-workflow.log")
        report = run_report.make(
            self.root,
            shard="1-of-1",
            list_path=wanted,
            config_path=conditions,
            targets=names,
            records=names,
            started_at=started_at,
            revision=revision,
            restored=restored,
            restore_s=restore_s,
            ended=ended,
            told=told,
            source_digests={stage: source_digest.digest(stage) for stage in ("audit-problem", *ONCE, *TIME_STAGES)},
        )
        members["report.json"] = report.model_dump_json(indent=1).encode() + b"\n"
        return archive.write(out, STEM, members)


def archives_in(out: Path) -> list[Path]:
    """Those that an earlier call has left in a folder."""
    return [*out.glob(f"{STEM}.tar.xz"), *out.glob(f"{STEM}.part*.tar.xz")]


def _report(data: bytes, path: Path) -> RunReport:
    try:
        return RunReport.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ArchiveError(f"{path}: report.json: field {field}: {first['msg']}. Fetch it again.") from None


def _whole(path: Path) -> Path:
    """One path for an archive's parts."""
    name, dot, _ = path.name.partition(".part")
    return path.with_name(name) if dot else path.with_name(path.name.removesuffix(".tar.xz"))


def _parsed(name: str, data: bytes, where: str) -> tuple[Place, Record]:
    found = archive.place(name)
    assert found is not None
    return found, found.parse(data, where)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _known(record: Record) -> Known:
    provenance: Provenance = record.provenance  # type: ignore[attr-defined]
    environment = None
    if isinstance(record, TimeRecord) and provenance.device is not None:
        environment = tuple(str(part) for part in provenance.device.environment())
    unstable = isinstance(record, StageRecord) and record.verdict == "unstable"
    return Known(_why_not(record), unstable, provenance.started_at, environment)


def _why_not(record: Record) -> str | None:
    if isinstance(record, StageRecord):
        if record.verdict == "pass":
            return None
        said = f"{record.stage}: {record.verdict or 'skipped'}: {record.reason or record.detail or 'no reason given'}"
    elif isinstance(record, ProblemRecord) and not record.usable:
        said = f"the problem is not usable: {record.detail}"
    else:
        return None
    return " ".join(said.split())[:_TOLD_CHARACTERS]
