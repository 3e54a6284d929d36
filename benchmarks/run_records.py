"""The records of a run, from archives of ``device-run`` or from a results tree. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kbverified import archive
from kbverified.keys import STAGES, CandidateKey, ProblemKey
from kbverified.records.base import DeviceInfo
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import StageRecord
from kbverified.run_report import RunReport


@dataclass
class Run:
    """What lies in the places that were named, the newest record of each name."""

    stages: dict[tuple[str, CandidateKey], StageRecord] = field(default_factory=dict)
    audits: dict[ProblemKey, ProblemRecord] = field(default_factory=dict)
    reports: list[RunReport] = field(default_factory=list)

    def of(self, stage: str) -> Iterator[tuple[CandidateKey, StageRecord]]:
        """The records of one stage that ran: skipped ones took no time worth counting."""
        for (name, key), record in self.stages.items():
            if name == stage and record.status == "ok":
                yield key, record

    def candidates(self) -> list[CandidateKey]:
        return sorted({key for _, key in self.stages}, key=str)

    def complete(self, key: CandidateKey) -> bool:
        """Whether every stage of a candidate has left its record."""
        return all((stage, key) in self.stages for stage in STAGES)

    def devices(self) -> set[str]:
        """Names of the devices that its records name."""
        return {device.name for device in self._devices()}

    def on_gpu(self) -> bool:
        """Whether its records are of GPUs: only then do the published evaluator's costs compare."""
        return {device.kind for device in self._devices()} == {"cuda"}

    def _devices(self) -> list[DeviceInfo]:
        records = (*self.stages.values(), *self.audits.values())
        return [record.provenance.device for record in records if record.provenance.device is not None]


def load(places: Iterable[Path]) -> Run:
    """Read archives (``.tar.xz``) and folders that hold ``results/``.

    Raises ArchiveError, RecordError, FileNotFoundError, ValueError for a place that is neither.
    """
    run = Run()
    for place in places:
        if place.is_dir():
            members = _tree(place)
        elif place.is_file():
            members = archive.read(place)
        else:
            raise FileNotFoundError(f"{place} is not there: name an archive of device-run or a folder with results/")
        for found, data in members:
            _add(run, found, data, str(place))
    if not run.stages and not run.audits:
        raise ValueError(f"{', '.join(map(str, places))}: no record in it")
    return run


def _tree(root: Path) -> Iterator[tuple[archive.Place, bytes]]:
    for path in sorted((root / "results").rglob("*.json")):
        found = archive.place(path.relative_to(root).as_posix())
        if found is not None:
            yield found, path.read_bytes()


def _add(run: Run, found: archive.Place, data: bytes, where: str) -> None:
    if found.kind == "report":
        run.reports.append(RunReport.model_validate_json(data))
    elif found.kind == "audit":
        record = found.parse(data, where)
        assert isinstance(record, ProblemRecord) and found.problem is not None
        known = run.audits.get(found.problem)
        if known is None or known.provenance.started_at < record.provenance.started_at:
            run.audits[found.problem] = record
    elif found.kind == "record":
        record = found.parse(data, where)
        assert isinstance(record, StageRecord) and found.candidate is not None and found.stage is not None
        name = (found.stage, found.candidate)
        earlier = run.stages.get(name)
        if earlier is None or earlier.provenance.started_at < record.provenance.started_at:
            run.stages[name] = record


# --- when ---------------------------------------------------------------------------------------------------
def moment_s(text: str) -> float:
    """A record's moment (ISO 8601) in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def start_s(record: StageRecord | ProblemRecord) -> float:
    return moment_s(record.provenance.started_at)


def end_s(record: StageRecord | ProblemRecord) -> float:
    return start_s(record) + record.provenance.duration_s
