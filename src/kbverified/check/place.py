"""Where a check happens: a private folder laid out as a checkout, so that stages and tables find what they expect,
and a cache of what does not depend on the candidate.

Nothing of the project's own generations/ and results/ is read or written.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbverified import problems, protocol, source_digest
from kbverified.check.question import Question
from kbverified.records.files import write_text

CACHE_VARIABLE = "KBV_CACHE_DIR"


def cache_folder() -> Path:
    """Where audits, ceilings and builds stay between checks: KBV_CACHE_DIR, else kbverified/ in the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "kbverified"


def build_root(root: Path | None) -> Path:
    """Where extensions are built: the checkout's .build where it has one, whose headers are made; else the cache."""
    own = root / ".build" if root is not None else None
    return own if own is not None and own.is_dir() else cache_folder() / "build"


@dataclass(frozen=True)
class Place:
    """A folder with problems/, generations/, results/ and logs/ of one candidate."""

    root: Path
    question: Question

    @property
    def candidate(self) -> Path:
        return self.question.key.source_path(self.root)

    @property
    def problem(self) -> Path:
        return self.question.problem.key.source_path(self.root)

    @property
    def audit(self) -> Path:
        return self.question.problem.key.record_path(self.root)

    @property
    def ceilings(self) -> Path:
        return self.root / "results" / "ceilings" / f"{self.question.device}.json"

    def record(self, stage: str) -> Path:
        return self.question.key.record_path(stage, self.root)

    def log(self, step: str) -> Path:
        return self.root / "logs" / f"{step}.log"


@contextlib.contextmanager
def made(question: Question, keep: Path | None) -> Iterator[Place]:
    """A place with copies of candidate and problem; it goes at the end, unless a folder is named to keep it in.

    Raises ValueError for a folder that is not empty or is the project's, OSError.
    """
    if keep is not None:
        root = _kept(keep, question.root)
    else:
        root = Path(tempfile.mkdtemp(prefix="kbverified-check-"))
        # A worker of root's has a uid of its own, and has to get at the files that it is given.
        root.chmod(0o711 if os.geteuid() == 0 else 0o700)
    place = Place(root, question)
    os.umask(0o022)  # whatever this user's is: a worker has to read what it is given, behind a root that nobody enters
    try:
        for source, target in ((question.candidate, place.candidate), (question.problem.path, place.problem)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        write_text(place.problem.with_name("manifest.csv"), _manifest(question, place.problem))
        place.log("").parent.mkdir(exist_ok=True)
        yield place
    finally:
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


def _kept(keep: Path, project: Path | None) -> Path:
    keep = keep.absolute()
    for name in ("generations", "results", "problems") if project is not None else ():
        if project is not None and keep.resolve().is_relative_to((project / name).resolve()):
            raise ValueError(f"--keep {keep}: {name}/ is the project's own; name a folder outside it")
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ValueError(f"--keep {keep}: not an empty folder; name one that is empty or not there yet")
    keep.mkdir(parents=True, exist_ok=True)
    return keep


def _manifest(question: Question, problem: Path) -> str:
    row = problems.ManifestRow(
        problem=question.problem.key.problem,
        name=question.problem.name,
        level=question.problem.key.level,
        sha256=_sha256(problem),
        source="kbverified check",
    )
    return problems.manifest_text([row])


def usable_build_root(place: Place) -> Path:
    """``build_root``, or where that cannot be written, as under a read-only home, a folder that goes with the place."""
    found = build_root(place.question.root)
    try:
        found.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError:
        return place.root / "build"
    return found if os.access(found, os.W_OK | os.X_OK) else place.root / "build"


# --- what does not depend on the candidate -------------------------------------------------------------------


def cached_audit(place: Place) -> Path:
    """Where the audit of this very problem, by this code, on this kind of device, is kept."""
    problem = place.question.problem
    return _cached("audit-problem", place, [problem.key.problem, problem.name, _sha256(place.problem)])


def cached_ceilings(place: Place) -> Path:
    return _cached("ceilings", place, [])


def _cached(step: str, place: Place, more: list[str]) -> Path:
    parts = [step, source_digest.digest(step), protocol.digest(step), *_environment(place.question.device), *more]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    return cache_folder() / step / f"{name}.json"


def _environment(device: str) -> list[str]:
    """What decides whether two runs' records may stand in one table, as far as known before a device is open."""
    torch = importlib.metadata.version("torch")
    common = [device, sys.version, torch, str(protocol.SCHEMA_VERSION)]
    if device == "cpu":
        from kbverified.devices import cpu_model

        return [*common, f"{cpu_model()} x{os.cpu_count()}"]
    from kbverified.lease import visible_gpus

    return [*common, *sorted({f"{gpu.name} {gpu.driver} {gpu.compute_capability}" for gpu in visible_gpus()})]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
