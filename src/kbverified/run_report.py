"""The report that lies in an archive of records: when, where, what is there, what is missing and why. Torch-free."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from kbverified import __version__
from kbverified.archive import place
from kbverified.deadline import Ended
from kbverified.records.base import Record
from kbverified.run_state import Restored

PACKAGES = ("snakemake", "torch", "triton", "pydantic", "pandas")


class Gpu(Record):
    """One GPU as ``nvidia-smi`` names it."""

    name: str
    uuid: str
    driver: str
    memory_mib: int


class RunReport(Record):
    """One call of ``device-run``."""

    shard: str
    """``1-of-4``."""
    list_name: str
    list_sha256: str
    config_name: str
    config_sha256: str
    revision: str | None
    """Of the working tree, ``-dirty`` where it differs; as told, or None, without git."""
    started_at: str
    """ISO 8601, UTC."""
    ended_at: str
    restore_s: float = Field(ge=0)
    run_s: float | None = Field(ge=0)
    """Snakemake, start to end. None where it was not started or this command itself was told to end."""
    returncode: int | None
    """Snakemake's."""
    stopped: str | None
    """None: Snakemake ended by itself. Else how it was stopped (deadline.Ended), or the signal to this command."""
    restored: int
    """Records taken from earlier archives."""
    left_out: dict[str, int]
    """Records of earlier archives that were not taken, by reason."""
    counts: dict[str, dict[str, int]]
    """Stage to verdict to number of records; skipped and missing ones under these words."""
    missing: int
    """Records asked for that are not there."""
    missing_examples: tuple[str, ...] = ()
    duration_s: dict[str, float]
    """Stage to the sum of its records' own durations."""
    cpus: int
    memory_bytes: int | None
    gpus: tuple[Gpu, ...]
    python: str
    packages: dict[str, str]
    system: str
    source_digests: dict[str, str] = Field(default_factory=dict)
    """Stage to ``source_digest.digest`` of the code that made every record of it here. Empty: nobody has seen to it."""


def make(
    root: Path,
    *,
    shard: str,
    list_path: Path,
    config_path: Path,
    targets: Sequence[str],
    records: Sequence[str],
    started_at: datetime,
    revision: str | None,
    restored: Restored,
    restore_s: float,
    ended: Ended | None,
    told: str | None,
    source_digests: Mapping[str, str] = MappingProxyType({}),
) -> RunReport:
    """Look at what lies under root and describe the call. ``targets`` were asked for, ``records`` belong to it."""
    counts: dict[str, Counter[str]] = {}
    durations: Counter[str] = Counter()
    for name in records:
        found = place(name)
        stage = (found.stage if found else None) or "audit-problem"
        path = root / name
        record = json.loads(path.read_bytes()) if path.is_file() else None
        counts.setdefault(stage, Counter())[_outcome(record)] += 1
        if record is not None:
            durations[stage] += record["provenance"]["duration_s"]
    missing = [name for name in targets if not (root / name).is_file()]
    return RunReport(
        shard=shard,
        list_name=list_path.name,
        list_sha256=hashlib.sha256(list_path.read_bytes()).hexdigest(),
        config_name=config_path.name,
        config_sha256=hashlib.sha256(config_path.read_bytes()).hexdigest(),
        revision=revision or revision_of(root),
        started_at=started_at.isoformat(timespec="seconds"),
        ended_at=datetime.now(UTC).isoformat(timespec="seconds"),
        restore_s=round(restore_s, 3),
        run_s=round(ended.duration_s, 1) if ended else None,
        returncode=ended.returncode if ended else None,
        stopped=told or (ended.stopped if ended else None),
        restored=restored.records,
        left_out=dict(sorted(restored.left_out.items())),
        counts={stage: dict(sorted(counted.items())) for stage, counted in counts.items()},
        missing=len(missing),
        missing_examples=tuple(missing[:20]),
        duration_s={stage: round(seconds, 1) for stage, seconds in durations.items()},
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        gpus=gpus(),
        python=platform.python_version(),
        packages=_packages(),
        system=platform.platform(),
        source_digests=dict(source_digests),
    )


def _outcome(record: dict[str, object] | None) -> str:
    if record is None:
        return "missing"
    if record.get("status") == "skipped":
        return "skipped"
    if "usable" in record:  # an audit judges the problem and has no verdict
        return "usable" if record["usable"] else "unusable"
    return str(record.get("verdict"))


def summary(report: RunReport) -> str:
    """A few lines for the terminal."""
    lines = [
        f"device-run {report.shard}: {report.run_s or 0:.0f} s of workflow, stopped by {report.stopped or 'its end'}"
    ]
    for stage, counted in report.counts.items():
        lines.append(f"  {stage:<14}" + ", ".join(f"{count} {what}" for what, count in counted.items()))
    lines += [f"  missing: {name}" for name in report.missing_examples[:5]]
    return "\n".join(lines)


def gpus() -> tuple[Gpu, ...]:
    """The GPUs of this machine, none where there is no ``nvidia-smi`` or it fails."""
    if shutil.which("nvidia-smi") is None:
        return ()
    query = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,memory.total", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row]
        return tuple(Gpu(name=r[0], uuid=r[1], driver=r[2], memory_mib=int(r[3])) for r in rows)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return ()


def gpu_count() -> int:
    """How many GPU jobs may run at a time: the visible GPUs of this machine."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([part for part in visible.split(",") if part.strip() and part.strip() != "-1"])
    return len(gpus())


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _packages() -> dict[str, str]:
    found = {"kbverified": __version__}  # it may run from a checkout that is not installed
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def revision_of(root: Path) -> str | None:
    """The commit of a working tree, ``-dirty`` where it differs; None without git."""
    git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=30, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
