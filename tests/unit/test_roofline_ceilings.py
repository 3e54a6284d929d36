"""Ceilings measured on the CPU of this machine: the record, and what decides how long it takes."""

from __future__ import annotations

from pathlib import Path

import archive_samples as samples
import pytest

from kbverified import archive, cli, protocol
from kbverified.merge_records import merge
from kbverified.records.ceilings import Ceilings
from kbverified.records.files import read
from kbverified.roofline import ceilings
from kbverified.roofline.floor import rates


def test_the_command_writes_a_record_of_this_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBV_LEASE_DIR", str(tmp_path / "leases"))
    monkeypatch.setitem(protocol.CEILING_BUFFER_BYTES, "cpu", 8 << 20)
    monkeypatch.setattr(ceilings, "CEILING_REPETITIONS", 4)
    out = tmp_path / "results/ceilings/cpu.json"
    assert cli.main(["ceilings", "--device", "cpu", "--out", str(out)]) == 0
    record = read(out, Ceilings)
    where = record.provenance
    assert where.device is not None and where.device.kind == "cpu" and where.problem_sha256 is None
    assert where.protocol_digest == protocol.digest("ceilings")
    kinds = [(run.what, run.mode, run.dtype, run.size) for run in record.runs]
    buffer, sizes = 8 << 20, protocol.CEILING_MATMUL_SIZES["cpu"]
    assert kinds[:4] == [(what, None, "fp32", buffer) for what in ("copy", "scale", "read", "write")]
    assert kinds[4:] == [k for n in sizes for k in (("matmul", "ieee", "fp32", n), ("matmul", None, "bf16", n))]
    assert all(3 <= len(run.times_ms) <= 4 for run in record.runs)
    assert [run.work for run in record.runs[:4]] == [2 * buffer, 2 * buffer, buffer, buffer]
    found = rates(record)
    assert 1e8 < found.bandwidth < 1e13 and 1e8 < found.ieee < 1e15 and found.tf32 == found.ieee


class Watched:
    """A device on which every launch takes as long as it says."""

    def __init__(self, launch_ms: float, clock: list[float]):
        self.launch_ms, self.clock = launch_ms, clock
        self.calls: list[str] = []

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def flush_cache(self) -> None:
        self.calls.append("flush")

    def time_ms(self, launch: object) -> tuple[float, None]:
        self.calls.append("time")
        self.clock[0] += 1e-3 * self.launch_ms
        return self.launch_ms, None


@pytest.mark.parametrize(("launch_ms", "count"), [(1.0, 20), (100.0, 5), (400.0, 3)])
def test_slow_work_is_repeated_less_and_the_cache_is_flushed_before_each(
    monkeypatch: pytest.MonkeyPatch, launch_ms: float, count: int
) -> None:
    clock = [0.0]
    monkeypatch.setattr(ceilings.time, "monotonic", lambda: clock[0])
    device, warmups = Watched(launch_ms, clock), []
    assert ceilings._repeat(device, lambda: warmups.append(1)) == (launch_ms,) * count
    assert len(warmups) == protocol.CEILING_WARMUPS
    assert device.calls == ["synchronize", *["flush", "time"] * count]


def test_archives_carry_ceilings_and_the_newest_stays(tmp_path: Path) -> None:
    name = "results/ceilings/cuda.json"
    for day in ("01", "02"):
        data = samples.ceilings(f"2026-12-{day}T00:00:00+00:00").model_dump_json().encode()
        (tmp_path / f"{day}.tar.xz").write_bytes(archive.pack({name: data}))
    for order in (("01", "02"), ("02", "01")):
        root = tmp_path / "-".join(order)
        merge([tmp_path / f"{day}.tar.xz" for day in order], root)
        assert read(root / name, Ceilings).provenance.started_at.startswith("2026-12-02")


def test_a_name_beside_the_two_kinds_of_device_is_no_place() -> None:
    assert archive.place("results/ceilings/cpu.json") is not None
    assert archive.place("results/ceilings/other.json") is None
