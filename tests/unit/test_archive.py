"""Archives hold what they should, read back nothing else, and merge without losing or mixing records."""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import tarfile
import zlib
from pathlib import Path

import archive_samples as samples
import pandas as pd
import pytest

from kbverified import archive, merge_records
from kbverified.archive import ArchiveError
from kbverified.keys import STAGES, CandidateKey
from kbverified.records.files import RecordError

KEY = CandidateKey("gen", "kernelbench", "level1_19", 0)
OTHER = CandidateKey("gen", "kernelbench", "level2_12", 3)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for key in (KEY, OTHER):
        samples.write_sources(root, key)
        samples.write_records(root, key)
    return root


def put(path: Path, members: dict[str, bytes]) -> Path:
    path.write_bytes(archive.pack(members))
    return path


def foreign(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    """An archive that pack() would not write."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, content in entries:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(lzma.compress(raw.getvalue()))
    return path


# --- the file -----------------------------------------------------------------------------------------------
def test_what_goes_in_comes_out_and_the_bytes_depend_on_nothing_else(tree: Path, tmp_path: Path) -> None:
    members = samples.members(tree)
    packed = archive.pack(members)
    for name in members:
        os.utime(tree / name, (1, 1))
    assert archive.pack(dict(reversed(samples.members(tree).items()))) == packed
    path = put(tmp_path / "a.tar.xz", members)
    assert {found.name: data for found, data in archive.read(path)} == members
    with tarfile.open(path) as tar:  # plain tools can read it too
        assert sorted(tar.getnames()) == sorted(members)


def test_a_candidate_takes_a_few_kilobytes(tmp_path: Path) -> None:
    """The paper's full run has 8,750 candidates; raw records of a report of 60 are to stay small beside it."""
    members = {}
    for number in range(1, 21):
        key = CandidateKey("gen", "kernelbench", f"level2_{number}", 0)
        samples.write_sources(tmp_path, key)
        samples.write_records(tmp_path, key)
    members = samples.members(tmp_path)
    assert sum(len(data) for data in members.values()) > 20 * 25_000
    assert len(archive.pack(members)) < 20 * 8_000


@pytest.mark.parametrize(
    "name",
    [
        "/results/compile/gen/kernelbench/level1_19/0.json",
        "results/../results/compile/gen/kernelbench/level1_19/0.json",
        "../results/compile/gen/kernelbench/level1_19/0.json",
        "results/compile/../kernelbench/level1_19/0.json",
        "results/compile/gen/kernelbench/level1_19/0.py",
        "generations/gen/kernelbench/level1_19/0.py",
        "results/kernels/gen.parquet",
        "results/compile/gen/kernelbench/level1_19/0.json\n",
        ".snakemake/metadata/../../x",
        "src/kbverified/protocol.py",
    ],
)
def test_names_that_no_archive_holds(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no archive holds"):
        archive.pack({name: b"{}"})
    path = foreign(tmp_path / "a.tar.xz", (tarfile.TarInfo(name), b"{}"))
    with pytest.raises(ArchiveError, match="none that an archive"):
        list(archive.read(path))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_only_plain_files_are_read(kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo(KEY.record_path("compile").as_posix())
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(ArchiveError, match="none that an archive"):
        list(archive.read(foreign(tmp_path / "a.tar.xz", (info, b""))))


def test_sizes_are_bounded(tmp_path: Path) -> None:
    name = KEY.record_path("compile").as_posix()
    big = b" " * (archive.MEMBER_LIMIT_BYTES + 1)
    with pytest.raises(ArchiveError, match="bytes"):
        archive.pack({name: big})
    path = foreign(tmp_path / "a.tar.xz", (tarfile.TarInfo(name), big))
    assert path.stat().st_size < 10_000
    with pytest.raises(ArchiveError, match=f"over {archive.MEMBER_LIMIT_BYTES}"):
        list(archive.read(path))
    path = put(tmp_path / "b.tar.xz", {name: b" " * 1_000_000})
    assert [len(data) for _, data in archive.read(path)] == [1_000_000]
    with pytest.raises(ArchiveError, match="unpacks to more than 500000 bytes"):
        list(archive.read(path, limit_bytes=500_000))


def test_a_dictionary_that_would_take_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.xz"
    # Forged, since the encoder would need the memory too.
    data = bytearray(lzma.compress(b"x" * 1000, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    at = data.index(b"\x21\x01", 12)  # LZMA2's id and the size of its properties, in the block header
    data[at + 2] = 35  # 512 MiB, by the format's table
    size = (data[12] + 1) * 4
    data[12 + size - 4 : 12 + size] = _crc32(bytes(data[12 : 12 + size - 4]))
    path.write_bytes(bytes(data))
    with pytest.raises(ArchiveError, match=r"[Mm]emory"):
        list(archive.read(path))


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def test_damaged_archives_say_so(tree: Path, tmp_path: Path) -> None:
    path = put(tmp_path / "a.tar.xz", samples.members(tree))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match=r"a\.tar\.xz: ends in the middle"):
        list(archive.read(path))
    path.write_bytes(b"no archive at all")
    with pytest.raises(ArchiveError, match="cannot be read"):
        list(archive.read(path))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    with pytest.raises(ArchiveError):
        list(archive.read(path))


def test_the_same_member_twice_is_refused(tmp_path: Path) -> None:
    name = "report.json"
    path = foreign(tmp_path / "a.tar.xz", (tarfile.TarInfo(name), b"{}"), (tarfile.TarInfo(name), b"[]"))
    with pytest.raises(ArchiveError, match="twice"):
        list(archive.read(path))


# --- size limit ---------------------------------------------------------------------------------------------
def test_too_large_first_drops_logs_then_splits(tree: Path, tmp_path: Path) -> None:
    members = samples.members(tree) | {"report.json": b"{}"}
    logs = {f"logs/compile/gen/kernelbench/level1_{n}/0.log": os.urandom(4000) for n in range(10)}
    limit = len(archive.pack(members)) + 100
    paths, notes = archive.write(tmp_path, "records-1-of-1", members | logs, limit)
    assert [path.name for path in paths] == ["records-1-of-1.tar.xz"]
    assert "10 failure logs left out" in notes[0]
    assert {found.name for found, _ in archive.read(paths[0])} == set(members)

    limit = len(archive.pack(members)) * 3 // 4
    paths, notes = archive.write(tmp_path, "records-1-of-1", members | logs, limit)
    assert [path.name for path in paths] == ["records-1-of-1.part1.tar.xz", "records-1-of-1.part2.tar.xz"]
    assert "2 parts" in notes[-1]
    assert not (tmp_path / "records-1-of-1.tar.xz").exists()  # of the call before
    assert all(path.stat().st_size <= limit for path in paths)
    parts = [dict((found.name, data) for found, data in archive.read(path)) for path in paths]
    assert parts[0] | parts[1] == members
    assert not parts[0].keys() & parts[1].keys()
    assert "report.json" in parts[0]
    with pytest.raises(ArchiveError, match="alone"):
        archive.write(tmp_path, "records-1-of-1", members, 2000)


# --- merging ------------------------------------------------------------------------------------------------
def test_merge_puts_shards_together(tree: Path, tmp_path: Path) -> None:
    members = samples.members(tree)
    first = put(tmp_path / "1.tar.xz", {n: d for n, d in members.items() if "level1_19" in n} | {"report.json": b"{}"})
    second = put(tmp_path / "2.tar.xz", {n: d for n, d in members.items() if "level2_12" in n})
    into = tmp_path / "merged"
    merged = merge_records.merge([first, second, first], into)
    assert samples.members(into) == members
    assert dict(merged.counts) == {"new": 14, "identical": 7}
    assert merged.messages == []
    assert not (into / "report.json").exists()


def rewritten(members: dict[str, bytes], name: str, started_at: str, **changes: object) -> dict[str, bytes]:
    record = json.loads(members[name])
    record["provenance"]["started_at"] = started_at
    record["provenance"] |= changes
    return {name: json.dumps(record).encode()}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_measurements_the_later_stays(order: tuple[int, int], tree: Path, tmp_path: Path) -> None:
    members, name = samples.members(tree), KEY.record_path("memory").as_posix()
    later = rewritten(members, name, "2026-11-29T19:00:00+00:00")
    paths = [put(tmp_path / "1.tar.xz", {name: members[name]}), put(tmp_path / "2.tar.xz", later)]
    merged = merge_records.merge([paths[n] for n in order], tmp_path / "merged")
    assert (tmp_path / "merged" / name).read_bytes() == later[name]
    assert len(merged.messages) == 1 and name in merged.messages[0] and "19:00" in merged.messages[0]
    with pytest.raises(merge_records.MergeConflict, match=r"memory/gen.*differs"):
        merge_records.merge([paths[n] for n in order], tmp_path / "strict", on_conflict="error")


def test_different_records_of_one_moment_are_a_conflict(tree: Path, tmp_path: Path) -> None:
    members, name = samples.members(tree), KEY.record_path("memory").as_posix()
    first = put(tmp_path / "1.tar.xz", {name: members[name]})
    second = put(tmp_path / "2.tar.xz", rewritten(members, name, samples.STARTED, package_version="9"))
    with pytest.raises(merge_records.MergeConflict):
        merge_records.merge([first, second], tmp_path / "merged")


def test_two_candidates_cannot_share_a_key(tree: Path, tmp_path: Path) -> None:
    name = KEY.metadata_path().as_posix()
    first = put(tmp_path / "1.tar.xz", {name: (tree / name).read_bytes()})
    other = json.loads((tree / name).read_bytes()) | {"candidate_sha256": "0" * 64}
    second = put(tmp_path / "2.tar.xz", {name: json.dumps(other).encode()})
    with pytest.raises(merge_records.MergeConflict, match="another generator or sample"):
        merge_records.merge([first, second], tmp_path / "merged")


def test_records_of_an_edited_candidate_beside_old_ones_are_named(tree: Path, tmp_path: Path) -> None:
    members, name = samples.members(tree), KEY.record_path("compile").as_posix()
    path = put(tmp_path / "1.tar.xz", members)
    edited = put(
        tmp_path / "2.tar.xz", rewritten(members, name, "2026-11-30T00:00:00+00:00", candidate_sha256="e" * 64)
    )
    merged = merge_records.merge([path, edited], tmp_path / "merged")
    assert any(str(KEY) in m and "different sources" in m and "eeeeeeeeeeee: compile" in m for m in merged.messages)
    assert not any(str(OTHER) in m for m in merged.messages)


def test_an_archive_with_one_bad_record_leaves_the_tree_alone(tree: Path, tmp_path: Path) -> None:
    members = samples.members(tree)
    name = KEY.record_path("time-tf32").as_posix()
    members[name] = members[KEY.record_path("time-fp32").as_posix()]  # in the wrong folder
    with pytest.raises(RecordError, match=r"1\.tar\.xz: results/time-tf32/.*stage: 'time-fp32'"):
        merge_records.merge([put(tmp_path / "1.tar.xz", members)], tmp_path / "merged")
    members[name] = b'{"stage": "time-tf32"}'
    with pytest.raises(RecordError, match="field provenance"):
        merge_records.merge([put(tmp_path / "1.tar.xz", members)], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_every_stage_has_its_place() -> None:
    for stage in STAGES:
        found = archive.place(KEY.record_path(stage).as_posix())
        assert found is not None and (found.kind, found.stage, found.candidate) == ("record", stage, KEY)
    found = archive.place(KEY.problem_key.record_path().as_posix())
    assert found is not None and (found.kind, found.problem, found.candidate) == ("audit", KEY.problem_key, None)


# --- the command --------------------------------------------------------------------------------------------
def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    merge_records.add_parser(parser.add_subparsers())
    args = parser.parse_args(["merge-records", *words])
    return args.run(args)


def test_the_command_merges_and_makes_every_table(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = samples.members(tree)
    shards = [
        put(tmp_path / f"{n}.tar.xz", {name: data for name, data in members.items() if key.problem in name})
        for n, key in enumerate((KEY, OTHER))
    ]
    config = tmp_path / "config.yaml"
    config.write_text("tau: {fp32: 1.0e-2}\n")
    into = tmp_path / "merged"
    assert command(*map(str, shards), "--into", str(into), "--config", str(config)) == 0
    assert "14 new" in capsys.readouterr().out
    table = pd.read_parquet(into / "results/kernels/gen.parquet")
    assert list(zip(table.problem, table["sample"], table.tau, table.verdict_hidden)) == [
        ("level1_19", 0, 1e-2, "pass"),
        ("level2_12", 3, 1e-2, "pass"),
    ]
    leaderboard = json.loads((into / "results/leaderboard.json").read_bytes())
    assert {entry["generator"] for entry in leaderboard["entries"]} == {"gen"}
    before = (into / "results/leaderboard.csv").read_bytes()
    assert command(*map(str, reversed(shards)), "--into", str(into), "--config", str(config)) == 0
    assert (into / "results/leaderboard.csv").read_bytes() == before


def test_an_optional_baselines_record_is_packed_merged_and_counted(tree: Path, tmp_path: Path) -> None:
    name = KEY.record_path("time-ieee").as_posix()
    record = samples.stage_record(tree, "time-ieee", KEY).model_dump(mode="json")
    record["provenance"]["mode"] = "ieee"
    members = {**samples.members(tree), name: json.dumps(record).encode()}
    path, config = put(tmp_path / "1.tar.xz", members), tmp_path / "config.yaml"
    config.write_text("")
    assert command(str(path), "--into", str(tmp_path / "merged"), "--config", str(config)) == 0
    assert json.loads((tmp_path / "merged" / name).read_bytes()) == record
    leaderboard = json.loads((tmp_path / "merged/results/leaderboard.json").read_bytes())
    assert leaderboard["conditions"]["arms"] == ["naive", "published", "matched", "ieee"]
    table = pd.read_parquet(tmp_path / "merged/results/kernels/gen.parquet")
    measured, other = table.sort_values("problem").to_dict("records")
    assert (measured["time_ieee_mode"], measured["time_ieee_rounds"]) == ("ieee", 10)
    assert pd.isna(other["time_ieee_mode"]) and other["why_null_time_ieee"] == "no time-ieee record"


def test_records_of_two_machines_are_merged_but_not_averaged(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = samples.members(tree)
    for stage in ("time-fp32", "time-tf32", "memory", "hidden-gate"):
        name = OTHER.record_path(stage).as_posix()
        record = json.loads(members[name])
        record["provenance"]["device"]["name"] = "NVIDIA A100"
        members[name] = json.dumps(record).encode()
    path, config = put(tmp_path / "1.tar.xz", members), tmp_path / "config.yaml"
    config.write_text("")
    assert command(str(path), "--into", str(tmp_path / "merged"), "--config", str(config)) == 2
    assert "NVIDIA A100" in capsys.readouterr().err
    assert samples.members(tmp_path / "merged") == members
    assert command(str(path), "--into", str(tmp_path / "merged"), "--no-tables") == 0


def test_an_archive_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(tmp_path / "none.tar.xz"), "--into", str(tmp_path)) == 2
    assert "none.tar.xz" in capsys.readouterr().err
