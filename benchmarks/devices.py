"""Do several GPUs of a host do several times the work of one, and are their times the same?

    python -m benchmarks.devices ONE MANY [--json FILE]

Two runs of the same list, archives of ``device-run`` or folders that hold ``results/``, the first on one GPU of the
host and the second on several. Nothing is measured here; the runs are

    python -m benchmarks.references PROBLEM... --samples 2
    kbverified device-run --list LIST --out MANY --no-audit ...                              # makes the audits as well
    rm -r results/{hidden-gate,time-fp32,time-tf32,memory}
    CUDA_VISIBLE_DEVICES=0 kbverified device-run --list LIST --out ONE --no-audit ...

- stages an hour: from when the first GPU stage held its device to the end of the last, so without Snakemake's start;
  audits and compiling are not counted. From the end of the first, several devices would have most of their first stages
  for nothing: two without any loss would seem to do more than twice the work.
- busy: share of that time that a stage held the device.
- ratio: baseline / candidate of the timing stages. Where the candidates are renamed references it is 1 in truth, on
  each device, whatever the others do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.aa import repeats
from benchmarks.launches import GPU_STAGES
from benchmarks.run_records import Run, end_s, load
from benchmarks.summaries import Spread, number, spread, table, write
from kbverified.archive import ArchiveError
from kbverified.keys import CandidateKey
from kbverified.records.files import RecordError
from kbverified.records.stages import StageRecord, TimeRecord

TARGET_RATIO_OF_TWO = 1.9
"""Issue 8: two devices do at least so many times the work of one. For n devices: 1 + (n - 1) x 0.9."""


@dataclass(frozen=True)
class Device:
    """One GPU's part in a run."""

    uuid: str
    stages: int
    busy: float
    """Share of the run's time that some stage held it."""
    ratios: Spread | None
    """Baseline / candidate of its timing stages."""
    furthest: float | None
    """Of these ratios the one furthest from 1."""


@dataclass(frozen=True)
class Pace:
    """One run."""

    devices: list[Device]
    stages: int
    wall_s: float
    """From the beginning of the first GPU stage's hold to the end of the last."""
    per_hour: float
    holds: dict[str, Spread]
    """By stage, seconds."""


@dataclass(frozen=True)
class Comparison:
    one: Pace
    many: Pace

    @property
    def speedup(self) -> float:
        return self.many.per_hour / self.one.per_hour

    @property
    def target(self) -> float:
        return 1 + (len(self.many.devices) - 1) * (TARGET_RATIO_OF_TWO - 1)


def gpu_stages(run: Run) -> dict[tuple[str, CandidateKey], StageRecord]:
    """The records of the stages that ran on a device, by stage and candidate."""
    return {(stage, key): record for stage in GPU_STAGES for key, record in run.of(stage)}


def pace(run: Run) -> Pace:
    """Of the GPU stages that ran. Raises ValueError for fewer than two, and for records that name no device."""
    records = gpu_stages(run)
    if len(records) < 2:
        raise ValueError(f"{len(records)} GPU stages ran: a pace needs two")
    held_s = {name: record.provenance.device_hold_s or 0.0 for name, record in records.items()}
    began_s = min(end_s(record) - held_s[name] for name, record in records.items())
    wall_s = max(map(end_s, records.values())) - began_s
    by_device: dict[str, list[tuple[str, CandidateKey]]] = {}
    for name, record in records.items():
        by_device.setdefault(_uuid(record, name[1]), []).append(name)
    devices = []
    for uuid, names in sorted(by_device.items()):
        ratios = _ratios(run, [name for name in names if isinstance(records[name], TimeRecord)])
        furthest = max(ratios, key=lambda ratio: abs(ratio - 1), default=None)
        devices.append(Device(uuid, len(names), sum(held_s[name] for name in names) / wall_s, spread(ratios), furthest))
    holds: dict[str, Spread] = {}
    for stage in GPU_STAGES:
        found = spread(r.provenance.device_hold_s for (of, _), r in records.items() if of == stage)
        if found is not None:
            holds[stage] = found
    return Pace(devices, len(records), wall_s, 3600 * len(records) / wall_s, holds)


def compare(one: Run, many: Run) -> Comparison:
    """Raises ValueError for runs of different stages, for a first run on several devices, or a second on one."""
    made = Comparison(pace(one), pace(many))
    differing = gpu_stages(one).keys() ^ gpu_stages(many).keys()
    if differing:
        stage, key = min(differing, key=str)
        raise ValueError(f"{stage} of {key} is in one run only: two runs of the same list are compared")
    if len(made.one.devices) != 1 or len(made.many.devices) < 2:
        raise ValueError(
            f"{len(made.one.devices)} and {len(made.many.devices)} devices: name the run on one first, then the other"
        )
    return made


def _ratios(run: Run, names: Sequence[tuple[str, CandidateKey]]) -> list[float]:
    mine = Run(stages={name: run.stages[name] for name in names})
    found = [repeat.ratio for generator in {key.generator for _, key in names} for repeat in repeats(mine, generator)]
    return [ratio for ratio in found if ratio is not None]


def _uuid(record: StageRecord, key: CandidateKey) -> str:
    device = record.provenance.device
    if device is None or device.uuid is None:
        raise ValueError(f"{record.stage} of {key} names no device's uuid: only runs on GPUs are compared")
    return device.uuid


def text(found: Comparison) -> str:
    rows = []
    for name, one in (("one", found.one), ("many", found.many)):
        for device in one.devices:
            ratio = None if device.ratios is None else device.ratios.text(4)
            rows.append(
                [name, device.uuid, device.stages, f"{100 * device.busy:.0f} %", ratio, number(device.furthest, 4)]
            )
    holds = [
        [stage, *(p.holds[stage].text(2) if stage in p.holds else None for p in (found.one, found.many))]
        for stage in GPU_STAGES
    ]
    met = "met" if found.speedup >= found.target else "not met"
    return "\n\n".join(
        [
            table(["run", "device", "stages", "busy", "ratio, median [quartiles]", "furthest"], rows),
            table(["hold s", "one", "many"], holds),
            f"stages an hour: {found.one.per_hour:.0f} ({found.one.stages} in {found.one.wall_s:.1f} s) on one, "
            f"{found.many.per_hour:.0f} ({found.many.wall_s:.1f} s) on {len(found.many.devices)}: "
            f"{found.speedup:.2f} times, at least {found.target:.1f}: {met}",
        ]
    )


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", type=Path, help="archive or folder of the run on one GPU")
    parser.add_argument("many", type=Path, help="of the run on several")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    try:
        found = compare(load([arguments.one]), load([arguments.many]))
    except (ArchiveError, RecordError, FileNotFoundError, ValueError) as error:
        print(f"devices: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        write(arguments.json, found)
    print(text(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
