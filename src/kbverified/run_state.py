"""Going on where another machine stopped: put archived records back so that Snakemake redoes nothing that is done.

A fresh machine has the sources, but neither records nor Snakemake's notes on them. Two kinds of archive bring them
back. *Records* alone are enough: Snakemake has no complaint about an output that it knows nothing of, as long as
it is newer than its inputs. With the *state* (``.snakemake/metadata`` of the same records) it also sees what
changed since, so that an edited stage reruns. Torch-free.
"""

from __future__ import annotations

import hashlib
import os
import time
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kbverified import protocol
from kbverified.archive import Place, place, read
from kbverified.keys import STAGES, CandidateKey, ProblemKey
from kbverified.records.base import Provenance, Record
from kbverified.records.stages import CompileRecord

METADATA = Path(".snakemake/metadata")


@dataclass
class Restored:
    """What came back from archives, in numbers, and why the rest did not."""

    records: int = 0
    notes: int = 0
    """Snakemake's metadata files."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason to count of records."""

    def __str__(self) -> str:
        text = f"{self.records} records restored"
        if self.left_out:
            text += "; left out: " + ", ".join(f"{count} {why}" for why, count in sorted(self.left_out.items()))
        return text


def state_members(root: Path, outputs: Collection[str]) -> dict[str, bytes]:
    """Snakemake's notes on these outputs (paths relative to root), as members of a state archive.

    Empty where there are none; Snakemake then judges by modification times alone.
    """
    members = {}
    folder = root / METADATA
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = path.relative_to(root).as_posix()
        if path.is_file() and place(name) is not None and noted_output(name) in outputs:
            members[name] = path.read_bytes()
    return members


def noted_output(name: str) -> str | None:
    """The output that a metadata file is about: Snakemake writes its path in base64, long ones over folders."""
    parts = name.removeprefix(f"{METADATA.as_posix()}/").split("/")
    text = "".join(part.removeprefix("@") for part in parts)
    try:
        return urlsafe_b64decode(text.encode()).decode()
    except ValueError:
        return None


def restore(archives: Iterable[Path], root: Path, wanted: Collection[str]) -> Restored:
    """Unpack the wanted records (paths relative to root) and their notes; newest first served, files there kept.

    Left out are records of another source, problem or protocol than what lies under root, and the records of a
    candidate whose stages are incomplete while what its compile stage built is not on this machine: its later
    stages would look for it, so it is done again from the start, as one measurement.
    Raises ArchiveError, RecordError, OSError.
    """
    result = Restored()
    newest: dict[str, tuple[Place, Record, bytes]] = {}
    notes: dict[str, dict[str, bytes]] = {}
    for path in archives:
        for found, data in read(path):
            if found.kind == "state":
                output = noted_output(found.name)
                if output is not None and output in wanted:
                    notes.setdefault(output, {})[found.name] = data
            elif found.kind in ("audit", "record") and found.name in wanted:
                record = found.parse(data, str(path))
                known = newest.get(found.name)
                if known is None or _provenance(known[1]).started_at < _provenance(record).started_at:
                    newest[found.name] = (found, record, data)

    keep = _keep(newest, root, result)
    modified_s = max(time.time(), *(_modified_s(newest[name][0], root) for name in keep), 0.0)
    if notes:  # without this folder Snakemake takes its notes for those of an old version and converts them
        (root / METADATA.parent / "incomplete").mkdir(parents=True, exist_ok=True)
    for name in keep:
        target = root / name
        if target.exists():
            result.left_out["already here"] += 1
            continue
        _write(target, newest[name][2], modified_s)
        result.records += 1
        for note, data in notes.get(name, {}).items():
            _write(root / note, data, modified_s)
            result.notes += 1
    return result


def _provenance(record: Record) -> Provenance:
    found = getattr(record, "provenance", None)
    assert isinstance(found, Provenance)  # every audit and stage record has one
    return found


def _keep(newest: dict[str, tuple[Place, Record, bytes]], root: Path, result: Restored) -> list[str]:
    hashes: dict[Path, str | None] = {}

    def current(path: Path) -> str | None:
        if path not in hashes:
            hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        return hashes[path]

    audits: list[str] = []
    candidates: dict[CandidateKey, dict[str, str]] = {}
    builds: dict[CandidateKey, CompileRecord] = {}
    for name, (found, record, _) in sorted(newest.items()):
        why = _stale(found, _provenance(record), current, root)
        if why:
            result.left_out[why] += 1
        elif found.candidate is None:
            audits.append(name)
        else:
            candidates.setdefault(found.candidate, {})[str(found.stage)] = name
            if isinstance(record, CompileRecord):
                builds[found.candidate] = record

    names = list(audits)
    for key, stages in candidates.items():
        if set(stages) >= set(STAGES) or _built_here(builds.get(key), root):
            names.extend(stages.values())
        else:
            result.left_out["of incomplete candidates, which start again"] += len(stages)
    return names


def _stale(found: Place, provenance: Provenance, current: Callable[[Path], str | None], root: Path) -> str | None:
    """Why a record is about something else than what lies under root; ``current`` gives a file's sha256."""
    assert isinstance(found.problem, ProblemKey)
    if provenance.problem_sha256 != current(found.problem.source_path(root)):
        return "of another problem source"
    if found.candidate is not None and provenance.candidate_sha256 != current(found.candidate.source_path(root)):
        return "of another candidate source"
    if provenance.protocol_digest != protocol.digest(found.stage or "audit-problem"):
        return "of another protocol"
    return None


def _built_here(record: CompileRecord | None, root: Path) -> bool:
    """Whether what this compile record speaks of can be used by the stages after it."""
    if record is None:
        return False
    if record.verdict != "pass" or not (record.builds or record.deferred):
        return True  # later stages need nothing of it
    return record.build_directory is not None and (root / record.build_directory).is_dir()


def _modified_s(found: Place, root: Path) -> float:
    """When the sources of a record were modified, which may be in the future of a clock that was put back."""
    assert isinstance(found.problem, ProblemKey)
    sources = [key.source_path(root) for key in (found.problem, found.candidate) if key is not None]
    return max(path.stat().st_mtime for path in sources)


def _write(path: Path, data: bytes, modified_s: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:200]}.tmp")
    temporary.write_bytes(data)
    # One time for all: newer than every source, and no record newer than the one that was made from it.
    os.utime(temporary, (modified_s, modified_s))
    os.replace(temporary, path)
