"""All records of one candidate, read and checked against each other; and the environments they come from.

A record that is corrupt, stale or about something else is an error that names the file: nothing is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kbverified import protocol
from kbverified.keys import EVERY_STAGE, TIME_STAGES, CandidateKey, ProblemKey, stages_with
from kbverified.records.base import Provenance, Record
from kbverified.records.files import RecordError, read
from kbverified.records.generation import Generation
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import STAGE_MODELS, StageRecord

M = TypeVar("M", bound=Record)

REMAKE = "Delete the file and rerun to make it again."


class MixedEnvironments(ValueError):
    """Records that may not stand in one table. The message says in what they differ, and names files."""


@dataclass(frozen=True)
class CandidateRecords:
    """All that is known of one candidate. A record that does not exist is None."""

    root: Path
    key: CandidateKey
    generation: Generation | None
    problem: ProblemRecord | None
    stages: dict[str, StageRecord | None]

    def path(self, stage: str) -> Path:
        return self.key.record_path(stage, self.root)

    def present(self) -> list[tuple[str, Path, Provenance]]:
        """(stage, file, provenance) of every record there is, the problem's audit first."""
        found: list[tuple[str, Path, Provenance]] = []
        if self.problem is not None:
            path = self.key.problem_key.record_path(self.root)
            found.append(("audit-problem", path, self.problem.provenance))
        return found + [(s, self.path(s), r.provenance) for s, r in self.stages.items() if r is not None]


def _read_or_none(path: Path, model: type[M]) -> M | None:
    try:
        return read(path, model)
    except FileNotFoundError:
        return None


def read_problem(root: Path, key: ProblemKey) -> ProblemRecord | None:
    """The audit of a problem, None where there is none. Raises RecordError."""
    return _read_or_none(key.record_path(root), ProblemRecord)


def load_problems(root: Path, keys: Iterable[ProblemKey]) -> dict[ProblemKey, ProblemRecord | None]:
    """Audits of the selected problems, in the order given. Raises RecordError."""
    return {key: read_problem(root, key) for key in keys}


def read_candidate(
    root: Path, key: CandidateKey, problem: ProblemRecord | None, baselines: Iterable[str] = ()
) -> CandidateRecords:
    """Read all records of one candidate and check that they are about the same thing. Raises RecordError.

    Of the optional baselines' records only those of ``baselines`` are read: another's may be older than the candidate.
    """
    stages: dict[str, StageRecord | None] = dict.fromkeys(EVERY_STAGE)
    for stage in stages_with(baselines):
        path = key.record_path(stage, root)
        record = _read_or_none(path, STAGE_MODELS[stage])
        if record is not None and record.stage != stage:
            raise RecordError(f"{path}: field stage: {record.stage!r} in the folder of {stage}. {REMAKE}")
        stages[stage] = record
    generation = _read_or_none(key.metadata_path(root), Generation)
    found = CandidateRecords(root, key, generation, problem, stages)
    _check_consistent(found)
    return found


def _check_consistent(found: CandidateRecords) -> None:
    """Raises RecordError where two records of a candidate are about different sources, problems or dtypes."""
    present = found.present()
    for _, path, provenance in present:
        if provenance.schema_version != protocol.SCHEMA_VERSION:
            raise RecordError(
                f"{path}: field provenance.schema_version: {provenance.schema_version}, "
                f"this version reads {protocol.SCHEMA_VERSION}. {REMAKE}"
            )
    for name in ("candidate_sha256", "problem_sha256", "dtype"):
        # The audit is made once per problem: it has no candidate, and candidates of any dtype share it.
        values = [
            (path, getattr(provenance, name))
            for stage, path, provenance in present
            if not (stage == "audit-problem" and name != "problem_sha256")
        ]
        known = [(path, value) for path, value in values if value is not None]
        for path, value in known[1:]:
            if value != known[0][1]:
                raise RecordError(
                    f"{path}: field provenance.{name}: {value!r}, but {known[0][0]} has {known[0][1]!r}: one of them "
                    "is stale. Delete the older file and rerun to make it again."
                )


@dataclass
class Environments:
    """What has to agree over all records of a table: each subject's values, and which files have them."""

    seen: dict[str, dict[str, list[Path]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def add(self, found: CandidateRecords) -> None:
        for stage, path, provenance in found.present():
            self._note(f"protocol of {stage}", provenance.protocol_digest[:16], path)
            # Compile needs no device: what it ran on says nothing about what was measured.
            if provenance.device is not None and stage != "compile":
                names = ("kind", "name", "driver", "torch", "cuda")
                parts = zip(names, provenance.device.environment())
                self._note("environment", ", ".join(f"{name} {value}" for name, value in parts), path)
            record = found.stages.get(stage)
            if record is not None and record.status == "ok" and stage in ("hidden-gate", *TIME_STAGES):
                self._note(f"mode of {stage}", str(provenance.mode), path)

    def _note(self, subject: str, value: str, path: Path) -> None:
        paths = self.seen[subject][value]
        if path not in paths[-1:]:
            paths.append(path)

    def check(self) -> None:
        """Raises MixedEnvironments, naming for each differing subject its values, their number and some files."""
        lines = []
        for subject, values in self.seen.items():
            if len(values) < 2:
                continue
            lines.append(f"{subject} differs:")
            for value, paths in sorted(values.items(), key=lambda item: -len(item[1])):
                shown = ", ".join(str(path) for path in paths[:3])
                more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
                lines.append(f"  {value}: {len(paths)} records ({shown}{more})")
        if lines:
            hint = "Delete the records that do not belong and rerun, or set allow_mixed_environments: true."
            raise MixedEnvironments("\n".join(["records of different environments in one table.", *lines, hint]))
