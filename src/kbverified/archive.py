"""Archives of raw records: one compressed file that can lie beside a report and be read without trust.

An archive is a tar in one xz stream. The same members give the same bytes: names sorted, no times, no owners.
It holds only what ``Place`` knows: stage records, problem audits, devices' ceilings, candidates' metadata, failure
logs, the run's own report, and (in state archives) Snakemake's notes on the records. Reading never writes: callers get
names that were checked and bytes that were bounded, and decide themselves where they go. Torch-free.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from kbverified.keys import EVERY_STAGE, NAME_PATTERN, PROBLEM_PATTERN, SAMPLE_PATTERN, CandidateKey, ProblemKey
from kbverified.records.base import Record
from kbverified.records.ceilings import Ceilings
from kbverified.records.files import RecordError
from kbverified.records.generation import Generation
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import STAGE_MODELS

ARCHIVE_LIMIT_BYTES = 16 << 20
"""Larger archives are written in parts: what a report's folder, and a GPU machine's way back, can carry."""
MEMBER_LIMIT_BYTES = 4 << 20
"""A record is tens of kilobytes; a member beyond this is refused."""
UNPACKED_LIMIT_BYTES = 1 << 30
"""All members of one archive together, headers included."""
MEMORY_LIMIT_BYTES = 256 << 20
"""What decompression may take: a forged dictionary size must not take the machine."""

_PRESET = 6 | lzma.PRESET_EXTREME  # 8 MiB dictionary, 94 MiB to compress; 9e takes 674 MiB and gains nothing here

Kind = Literal["audit", "ceilings", "record", "generation", "report", "log", "state"]

_CANDIDATE = rf"(?P<generator>{NAME_PATTERN})/(?P<suite>{NAME_PATTERN})/(?P<problem>{PROBLEM_PATTERN})"
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("audit", re.compile(rf"results/problems/(?P<suite>{NAME_PATTERN})/(?P<problem>{PROBLEM_PATTERN})\.json")),
    ("ceilings", re.compile(r"results/ceilings/(?:cuda|cpu)\.json")),
    (
        "record",
        re.compile(rf"results/(?P<stage>{'|'.join(EVERY_STAGE)})/{_CANDIDATE}/(?P<sample>{SAMPLE_PATTERN})\.json"),
    ),
    ("generation", re.compile(rf"generations/{_CANDIDATE}/(?P<sample>{SAMPLE_PATTERN})\.json")),
    ("report", re.compile(r"report\.json")),
    ("log", re.compile(rf"logs/(?:{NAME_PATTERN}/)*{NAME_PATTERN}")),
    ("state", re.compile(r"\.snakemake/metadata/(?:@[A-Za-z0-9_=-]+/)*[A-Za-z0-9_=-]+")),
)
_MODELS: dict[str, type[Record]] = {
    "audit": ProblemRecord,
    "ceilings": Ceilings,
    "generation": Generation,
    **STAGE_MODELS,
}


class ArchiveError(ValueError):
    """An archive that cannot be used. The message names the archive, the member and what to do."""


@dataclass(frozen=True)
class Place:
    """What a member is, read off its name."""

    name: str
    kind: Kind
    stage: str | None = None
    problem: ProblemKey | None = None
    candidate: CandidateKey | None = None

    def parse(self, data: bytes, where: str) -> Record:
        """The member as the record that its name promises. Raises RecordError with archive, member and field."""
        if self.kind not in ("audit", "ceilings", "record", "generation"):
            raise ValueError(f"{self.name} is no record")
        model = _MODELS[self.stage or self.kind]
        try:
            record = model.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "(whole record)"
            value = repr(first.get("input"))[:80]
            raise RecordError(f"{where}: {self.name}: field {field}: {first['msg']} (value {value})") from None
        if self.stage is not None and getattr(record, "stage", None) != self.stage:
            raise RecordError(f"{where}: {self.name}: field stage: {getattr(record, 'stage', None)!r} in this folder")
        return record


def place(name: str) -> Place | None:
    """What may lie in an archive under this name; None where nothing may."""
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match is None:
            continue
        parts = match.groupdict()
        problem = ProblemKey(parts["suite"], parts["problem"]) if parts.get("problem") else None
        candidate = None
        if problem is not None and parts.get("generator"):
            candidate = CandidateKey(parts["generator"], problem.suite, problem.problem, int(parts["sample"]))
        return Place(name, kind, parts.get("stage"), problem, candidate)
    return None


# --- writing ------------------------------------------------------------------------------------------------
def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive of these members (name to content), the same bytes for the same members.

    Raises ArchiveError for a name that no archive holds and for a member that no reader would accept.
    """
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members):
            if place(name) is None:
                raise ArchiveError(f"{name}: no archive holds a file of this name")
            if len(members[name]) > MEMBER_LIMIT_BYTES:
                raise ArchiveError(f"{name}: {len(members[name])} bytes, more than {MEMBER_LIMIT_BYTES}")
            info = tarfile.TarInfo(name)
            info.size = len(members[name])
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(members[name]))
    return lzma.compress(raw.getvalue(), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=_PRESET)


def write(
    folder: Path, stem: str, members: Mapping[str, bytes], limit_bytes: int = ARCHIVE_LIMIT_BYTES
) -> tuple[list[Path], list[str]]:
    """Write ``{stem}.tar.xz`` into folder, each file at most limit_bytes.

    Where that does not suffice, logs are left out first; then the records are spread over ``{stem}.partK.tar.xz``,
    one problem's records together, the report in the first. Returns the paths and what had to be said about it.
    Raises ArchiveError where one problem's records alone exceed the limit, OSError.
    """
    notes: list[str] = []
    data = pack(members)
    if len(data) > limit_bytes and any(_is(name, "log") for name in members):
        logs = [name for name in members if _is(name, "log")]
        members = {name: content for name, content in members.items() if name not in set(logs)}
        notes.append(f"{len(logs)} failure logs left out: the archive would have {len(data)} bytes, over {limit_bytes}")
        data = pack(members)
    if len(data) <= limit_bytes:
        chunks = [data]
    else:
        chunks = _split(members, limit_bytes)
        notes.append(f"written in {len(chunks)} parts: the archive would have {len(data)} bytes, over {limit_bytes}")
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob(f"{stem}.tar.xz"), *folder.glob(f"{stem}.part*.tar.xz")):
        old.unlink()
    names = [f"{stem}.tar.xz"] if len(chunks) == 1 else [f"{stem}.part{n + 1}.tar.xz" for n in range(len(chunks))]
    for name, chunk in zip(names, chunks):
        temporary = folder / f".{name}.tmp"
        temporary.write_bytes(chunk)
        temporary.replace(folder / name)
    return [folder / name for name in names], notes


def _is(name: str, kind: Kind) -> bool:
    found = place(name)
    return found is not None and found.kind == kind


def _split(members: Mapping[str, bytes], limit_bytes: int) -> list[bytes]:
    """Halve by problem until every half fits."""
    data = pack(members)
    if len(data) <= limit_bytes:
        return [data]
    groups: dict[str, list[str]] = {}
    for name in sorted(members):
        found = place(name)
        groups.setdefault(str(found.problem) if found and found.problem else "", []).append(name)
    if len(groups) < 2:
        raise ArchiveError(f"{next(iter(groups))}: its records alone have {len(data)} bytes, over {limit_bytes}")
    order = sorted(groups)
    sizes = [sum(len(members[name]) for name in groups[group]) for group in order]
    # The cut after which both sides are most alike, and neither is empty.
    half = min(range(1, len(order)), key=lambda cut: abs(sum(sizes[:cut]) - sum(sizes[cut:])))
    parts = []
    for some in (order[:half], order[half:]):
        parts.extend(_split({name: members[name] for group in some for name in groups[group]}, limit_bytes))
    return parts


# --- reading ------------------------------------------------------------------------------------------------
class _BoundedXz(io.RawIOBase):
    """One xz stream, decompressed with bounded memory and a bounded total."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("rb")
        self._decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MEMORY_LIMIT_BYTES)
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        while not self._decompressor.eof:
            compressed = self._file.read(1 << 16) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not compressed:
                raise ArchiveError(f"{self._path}: ends in the middle. Fetch it again.")
            data = self._decompressor.decompress(compressed, max_length=len(buffer))
            self._left_bytes -= len(data)
            if self._left_bytes < 0:
                raise ArchiveError(f"{self._path}: unpacks to more than {self._limit_bytes} bytes; not one of ours")
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def close(self) -> None:
        self._file.close()
        super().close()


def read(path: Path, limit_bytes: int = UNPACKED_LIMIT_BYTES) -> Iterator[tuple[Place, bytes]]:
    """The members of an archive in their order. Nothing is written.

    Raises ArchiveError for what is no archive of ours: a damaged file, a link or device, a name that no archive
    holds (so no absolute one and none with ``..``), the same name twice, a member or a total beyond the limits.
    FileNotFoundError where there is none.
    """
    seen: set[str] = set()
    with _BoundedXz(path, limit_bytes) as raw:
        try:
            with tarfile.open(fileobj=io.BufferedReader(raw), mode="r|") as tar:
                for info in tar:
                    found = place(info.name)
                    if not info.isreg() or found is None:
                        raise ArchiveError(f"{path}: member {info.name!r} is none that an archive of records holds")
                    if info.name in seen:
                        raise ArchiveError(f"{path}: member {info.name} is there twice")
                    if info.size > MEMBER_LIMIT_BYTES:
                        raise ArchiveError(
                            f"{path}: member {info.name} has {info.size} bytes, over {MEMBER_LIMIT_BYTES}"
                        )
                    seen.add(info.name)
                    content = tar.extractfile(info)
                    assert content is not None  # isreg() above
                    yield found, content.read()
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise ArchiveError(f"{path}: cannot be read as a .tar.xz of records: {error}. Fetch it again.") from None
