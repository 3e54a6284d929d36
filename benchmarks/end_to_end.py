"""Candidates an hour, from start to end of real runs.

    python -m benchmarks.end_to_end ARCHIVE_OR_FOLDER... [--json FILE]

One row a place: an archive of ``device-run``, whose report says when it started and ended, or a folder that holds
``results/``, where the records do; so they do for a run that went on from earlier calls.

A candidate is done when all its stages have left their records; one that failed early is done early, so how many were
timed stands beside it. "At pace" counts from the first to the last candidate that got done: without the start, the
audits before it, and a cut-off end. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.holds import PUBLISHED_HOLD_S
from benchmarks.run_records import Run, end_s, load, moment_s, start_s
from benchmarks.summaries import number, table, write
from kbverified.archive import ArchiveError
from kbverified.keys import STAGES
from kbverified.records.files import RecordError
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import StageRecord, TimeRecord

TARGET_RATIO = 20.0
"""Issue 3: at least this many times the published evaluator's candidates an hour."""


GAP_S = 60.0
"""No record in the making for longer than this: the run had stopped, and was taken up again later."""


@dataclass(frozen=True)
class EndToEnd:
    """One run."""

    place: str
    wall_s: float
    """From the report's start to its end. Where there is none, or it went on from earlier calls, of which no report
    tells: the time in which records were made, without gaps of more than GAP_S."""
    gpus: int
    cores: int | None
    candidates: int
    """With a record of any stage."""
    done: int
    timed: int
    """Of the done: with a time under time-fp32."""
    audits: int
    per_hour: float
    at_pace_per_hour: float | None
    """None for fewer than two done, and for several calls."""
    gpu_busy: float | None
    """Share of the GPUs' time that some stage or audit held them. None where no record tells."""

    on_gpu: bool

    @property
    def over_published(self) -> tuple[float, float] | None:
        """How many times the published evaluator's rate on as many GPUs: against its faster and its slower problem.

        None where this ran on no GPU.
        """
        if not self.on_gpu:
            return None
        rates = sorted(3600 / hold_s * self.gpus for hold_s in PUBLISHED_HOLD_S.values())
        return self.per_hour / rates[-1], self.per_hour / rates[0]


def measure(place: str, run: Run) -> EndToEnd:
    """Of the records and, where there is one, the report of a single run. Raises ValueError for several reports."""
    if len(run.reports) > 1:
        raise ValueError(f"{place}: {len(run.reports)} reports; one run at a time")
    report = run.reports[0] if run.reports else None
    records: list[StageRecord | ProblemRecord] = [*run.stages.values(), *run.audits.values()]
    spans_s = active_spans_s([(start_s(record), end_s(record)) for record in records])
    if report is not None and spans_s[0][0] > moment_s(report.started_at) - 1.0:
        wall_s = moment_s(report.ended_at) - moment_s(report.started_at)
    else:
        wall_s = sum(end - start for start, end in spans_s)
    gpus = max(1, len(report.gpus) if report is not None else len(_uuids(records)))
    done_s = sorted(
        max(end_s(run.stages[stage, key]) for stage in STAGES) for key in run.candidates() if run.complete(key)
    )
    holds = [r.provenance.device_hold_s for r in records if r.provenance.device_hold_s is not None]
    return EndToEnd(
        place=place,
        wall_s=wall_s,
        gpus=gpus,
        cores=report.cpus if report is not None else None,
        candidates=len(run.candidates()),
        done=len(done_s),
        timed=sum(run.complete(key) and _is_timed(run.stages["time-fp32", key]) for key in run.candidates()),
        audits=len(run.audits),
        per_hour=3600 * len(done_s) / wall_s,
        at_pace_per_hour=pace_per_hour(done_s) if len(spans_s) == 1 else None,
        gpu_busy=sum(holds) / (wall_s * gpus) if holds else None,
        on_gpu=run.on_gpu(),
    )


def active_spans_s(spans_s: Sequence[tuple[float, float]], gap_s: float = GAP_S) -> list[tuple[float, float]]:
    """Spans (start, end) joined where not more than ``gap_s`` lies between them, in order."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans_s):
        if joined and start - joined[-1][1] <= gap_s:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def pace_per_hour(done_s: Sequence[float]) -> float | None:
    """Events an hour between the first and the last of sorted moments (seconds)."""
    if len(done_s) < 2 or done_s[-1] <= done_s[0]:
        return None
    return 3600 * (len(done_s) - 1) / (done_s[-1] - done_s[0])


def _is_timed(record: StageRecord) -> bool:
    return isinstance(record, TimeRecord) and bool(record.rounds)


def _uuids(records: Sequence[StageRecord | ProblemRecord]) -> set[str]:
    devices = [record.provenance.device for record in records]
    return {device.uuid for device in devices if device is not None and device.uuid is not None}


def text(runs: Sequence[EndToEnd]) -> str:
    head = ["run", "wall s", "GPUs", "cores", "candidates", "done", "timed", "audits", "an hour", "at pace", "GPU busy"]
    head.append("times the published evaluator")
    rows = [
        [
            one.place,
            number(one.wall_s, 0),
            one.gpus,
            one.cores,
            one.candidates,
            one.done,
            one.timed,
            one.audits,
            number(one.per_hour, 0),
            number(one.at_pace_per_hour, 0),
            None if one.gpu_busy is None else f"{100 * one.gpu_busy:.0f} %",
            None if one.over_published is None else "{:.1f} to {:.1f}".format(*one.over_published),
        ]
        for one in runs
    ]
    return table(head, rows)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", type=Path, nargs="+", metavar="ARCHIVE_OR_FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    try:
        runs = [measure(place.name, load([place])) for place in arguments.places]
    except (ArchiveError, RecordError, FileNotFoundError, ValueError) as error:
        print(f"end_to_end: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        write(arguments.json, runs)
    print(text(runs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
