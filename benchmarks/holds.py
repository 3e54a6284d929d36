"""How long each stage kept a GPU, what of that its launches took, and how many candidates an hour that allows.

    python -m benchmarks.holds ARCHIVE_OR_FOLDER... [--cores 16] [--json FILE]

Reads the records of a run: archives of ``device-run``, or folders that hold ``results/``. Nothing is measured here.

- hold: ``device_hold_s``, from the lease to its end; wait: ``device_wait_s``, ready and waiting for a device.
- launches: in a timing stage the recorded repetitions of both sides, the baseline alone included, and what was
  launched without being recorded at the medians of the sides: warm-up, hot launches, batches.
  In the gate one launch a trial and side, in memory three of the baseline and two of the candidate, at the times of
  the candidate's own timing record; unknown where it has none. Without the cache flush and the messages between.
- ramp: how long the device was kept busy until its clock was up (timing stages).
- beyond: hold - launches, the ramp included; "no ramp" is beyond - ramp, what issue 3 bounds by 1.5 s a stage.
- CPU part: duration - wait - hold: what happens before a device is needed, in seconds of wall.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launches import GPU_STAGES, Hold, holds
from benchmarks.run_records import Run, load
from benchmarks.summaries import Spread, number, spread, table, write
from kbverified.archive import ArchiveError
from kbverified.keys import CandidateKey
from kbverified.records.files import RecordError
from kbverified.records.stages import CompileRecord

PROCESSES = {"hidden-gate": 2, "time-fp32": 3, "time-tf32": 3, "memory": 3}
"""Judge and workers that import torch side by side in a stage's CPU part."""
BEYOND_TARGET_S = 1.5
"""Issue 3: at most this much of a stage's hold beside its launches."""
TOGETHER_TARGET_S = {"level1_19": 12.0, "level2_12": 8.0}
"""Issue 3: at most this much hold for the four GPU stages of a renamed reference."""
PUBLISHED_HOLD_S = {"level2_12": 97.0, "level1_19": 283.0}
"""GPU hold of the published system's own evaluator, standard and hidden test of one candidate, on one H200 with 16
cores, torch 2.11.0+cu130, KernelBench 423217d (our measurement of 2026-11, before this repository)."""
PUBLISHED_COMPILE_CPU_S = (95.0, 126.0)
"""CPU seconds of torch's load_inline of one candidate there: alone on an idle machine, and on 16 busy cores."""


# --- summing up ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StageSummary:
    """One GPU stage over all candidates, seconds."""

    stage: str
    hold: Spread
    launches: Spread | None
    ramp: Spread | None
    beyond: Spread | None
    beyond_without_ramp: Spread | None
    wait: Spread | None
    cpu_part: Spread | None
    parts: dict[str, Spread]
    """Of what the records say that the hold went into, in their order; empty for records of before they did."""


@dataclass(frozen=True)
class Together:
    """The four GPU stages of one candidate, all of which ran."""

    candidate: str
    problem: str
    hold_s: float
    target_s: float | None
    published_hold_s: float | None

    @property
    def ratio(self) -> float | None:
        """Published hold / ours."""
        return None if self.published_hold_s is None else self.published_hold_s / self.hold_s


@dataclass(frozen=True)
class Rates:
    """Candidates an hour, from the means: what one GPU allows, and what the cores allow."""

    cores: int
    gpu_s: float
    """Mean hold of a candidate, summed over the GPU stages."""
    cpu_s: float
    """Mean CPU seconds: the compile record's, and those of each GPU stage; ``cpu_from`` says where these are from."""
    cpu_from: str
    by_gpu: float
    by_cores: float
    published_by_gpu: tuple[float, float] | None
    """Of level1_19 and of level2_12; None where this ran on no GPU."""

    @property
    def both(self) -> float:
        return min(self.by_gpu, self.by_cores)


@dataclass(frozen=True)
class Summary:
    devices: list[str]
    stages: list[StageSummary]
    together: list[Together]
    compile_cpu_s: Spread | None
    compile_wall_s: Spread | None
    audit_hold_s: Spread | None
    rates: Rates | None


def summarize(run: Run, cores: int, stage_cpu_s: Mapping[str, float] | None = None) -> Summary:
    """Of all stages that ran, whatever their verdict: a failing candidate keeps the device too.

    ``stage_cpu_s``: CPU seconds of a stage's processes where they were measured (peaks.cpu_by_stage).
    """
    found = holds(run)
    stages = []
    for stage in GPU_STAGES:
        mine = [hold for hold in found if hold.stage == stage]
        held = spread(hold.hold_s for hold in mine)
        if held is not None:
            stages.append(
                StageSummary(
                    stage,
                    held,
                    spread(hold.launches_s for hold in mine),
                    spread(hold.ramp_s for hold in mine),
                    spread(hold.beyond_s for hold in mine),
                    spread(hold.beyond_without_ramp_s for hold in mine),
                    spread(hold.wait_s for hold in mine),
                    spread(hold.cpu_part_s for hold in mine),
                    _parts(mine),
                )
            )
    compiled = [record for _, record in run.of("compile") if isinstance(record, CompileRecord)]
    compile_cpu = spread(record.cpu_seconds for record in compiled)
    return Summary(
        sorted(run.devices()),
        stages,
        together(found, run.on_gpu()),
        compile_cpu,
        spread(record.provenance.duration_s for record in compiled if record.cpu_seconds is not None),
        spread(audit.provenance.device_hold_s for audit in run.audits.values()),
        rates(stages, compile_cpu, cores, stage_cpu_s, run.on_gpu()),
    )


def _parts(mine: Sequence[Hold]) -> dict[str, Spread]:
    names = dict.fromkeys(name for hold in mine for name in hold.parts_s)
    found = {name: spread(hold.parts_s.get(name) for hold in mine) for name in names}
    return {name: one for name, one in found.items() if one is not None}


def together(found: Sequence[Hold], on_gpu: bool = True) -> list[Together]:
    """Candidates of which every GPU stage ran. What they are held against is a GPU's."""
    by_candidate: dict[str, dict[str, float]] = {}
    for hold in found:
        by_candidate.setdefault(hold.candidate, {})[hold.stage] = hold.hold_s
    rows = []
    for candidate, stages in sorted(by_candidate.items()):
        if set(stages) == set(GPU_STAGES):
            key = CandidateKey.from_tail(candidate)
            # Other suites have other shapes under the same number.
            name = key.problem if on_gpu and key.suite == "kernelbench" else ""
            rows.append(
                Together(
                    candidate,
                    key.problem,
                    sum(stages.values()),
                    TOGETHER_TARGET_S.get(name),
                    PUBLISHED_HOLD_S.get(name),
                )
            )
    return rows


def rates(
    stages: Sequence[StageSummary],
    compile_cpu: Spread | None,
    cores: int,
    stage_cpu_s: Mapping[str, float] | None = None,
    on_gpu: bool = True,
) -> Rates | None:
    """None where a stage, or the compile stage's CPU time, is not there at all."""
    if {one.stage for one in stages} != set(GPU_STAGES) or compile_cpu is None:
        return None
    gpu_s = sum(one.hold.mean for one in stages)
    if stage_cpu_s is not None and set(GPU_STAGES) <= set(stage_cpu_s):
        cpu_s, cpu_from = sum(stage_cpu_s[stage] for stage in GPU_STAGES), "measured"
    else:
        cpu_s = sum(one.cpu_part.mean * PROCESSES[one.stage] for one in stages if one.cpu_part)
        cpu_from = "at most: CPU part x processes"
    cpu_s += compile_cpu.mean
    slow, fast = sorted(3600 / hold_s for hold_s in PUBLISHED_HOLD_S.values())
    return Rates(cores, gpu_s, cpu_s, cpu_from, 3600 / gpu_s, 3600 * cores / cpu_s, (slow, fast) if on_gpu else None)


# --- for reading --------------------------------------------------------------------------------------------
def text(summary: Summary) -> str:
    head = ["stage", "n", "hold s", "max", "launches s", "ramp s", "beyond s", "no ramp", "wait s", "CPU part s"]
    rows = []
    for one in summary.stages:
        spreads = (one.launches, one.ramp, one.beyond, one.beyond_without_ramp, one.wait, one.cpu_part)
        rows.append(
            [
                one.stage,
                one.hold.n,
                one.hold.text(2),
                number(one.hold.largest, 2),
                *(s.text(2) if s else None for s in spreads),
            ]
        )
    lines = [f"devices: {', '.join(summary.devices) or 'none'}; medians [quartiles]", "", table(head, rows), ""]
    met = [
        f"{one.stage} {'met' if one.beyond_without_ramp.median <= BEYOND_TARGET_S else 'not met'}"
        for one in summary.stages
        if one.beyond_without_ramp
    ]
    if met:
        lines += [f"beyond the launches, no ramp, median at most {BEYOND_TARGET_S} s: {', '.join(met)}", ""]
    for one in summary.stages:
        if one.parts:
            lines.append(f"{one.stage} went into: " + ", ".join(f"{n} {p.median:.2f}" for n, p in one.parts.items()))
    for name, found in (
        ("compile, CPU s", summary.compile_cpu_s),
        ("compile, wall s", summary.compile_wall_s),
        ("audit, hold s", summary.audit_hold_s),
    ):
        if found:
            lines.append(f"{name}: {found.text()} over {found.n}, at most {found.largest:.1f}")
    lines += ["", *_together_text(summary.together)]
    if summary.rates:
        lines += ["", *_rates_text(summary.rates)]
    return "\n".join(lines)


def _together_text(rows: Sequence[Together]) -> list[str]:
    if not rows:
        return ["no candidate has all four GPU stages"]
    shown = []
    for one in sorted(rows, key=lambda one: (one.target_s is None, one.candidate)):
        target = (
            None
            if one.target_s is None
            else f"{one.target_s:.0f}: {'met' if one.hold_s <= one.target_s else 'not met'}"
        )
        shown.append(
            [one.candidate, number(one.hold_s, 2), target, number(one.published_hold_s, 0), number(one.ratio, 1)]
        )
    return [table(["four GPU stages together", "hold s", "at most", "published hold s", "published / ours"], shown)]


def _rates_text(found: Rates) -> list[str]:
    lines = [
        f"candidates an hour: {found.by_gpu:.0f} by one GPU ({found.gpu_s:.1f} s each), {found.by_cores:.0f} by "
        f"{found.cores} cores ({found.cpu_s:.0f} CPU-s each, {found.cpu_from}); both: {found.both:.0f}"
    ]
    if found.published_by_gpu is not None:
        slow, fast = found.published_by_gpu
        lines.append(
            f"published evaluator on one GPU: {slow:.1f} (level1_19) to {fast:.1f} (level2_12): "
            f"{found.both / fast:.1f} to {found.both / slow:.1f} times as many here"
        )
    return lines


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", type=Path, nargs="+", metavar="ARCHIVE_OR_FOLDER")
    parser.add_argument("--cores", type=int, default=16, help="for the rates (default: 16)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    try:
        run = load(arguments.places)
    except (ArchiveError, RecordError, FileNotFoundError, ValueError) as error:
        print(f"holds: {error}", file=sys.stderr)
        return 2
    summary = summarize(run, arguments.cores)
    if arguments.json:
        write(arguments.json, {"summary": summary, "holds": holds(run)})
    print(text(summary))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
