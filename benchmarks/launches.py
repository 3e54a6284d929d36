"""How long each stage of each candidate kept a device, and what of that its launches took. From records; torch-free."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from benchmarks.run_records import Run
from kbverified.keys import STAGES, CandidateKey
from kbverified.protocol import (
    TIMING_HOT_LAUNCHES_MAX,
    TIMING_HOT_MS,
    TIMING_WARMUP_BUDGET_MS,
    TIMING_WARMUP_CHUNK,
)
from kbverified.records.stages import GateRecord, StageRecord, TimeRecord

GPU_STAGES = tuple(stage for stage in STAGES if stage != "compile")


@dataclass(frozen=True)
class Hold:
    """One GPU stage of one candidate, seconds."""

    candidate: str
    stage: str
    verdict: str
    hold_s: float
    wait_s: float
    cpu_part_s: float
    launches_s: float | None
    """None where no timing record tells how long its launches are."""
    ramp_s: float | None
    parts_s: dict[str, float] = field(default_factory=dict)
    """What the record says that its hold went into."""

    @property
    def beyond_s(self) -> float | None:
        return None if self.launches_s is None else self.hold_s - self.launches_s

    @property
    def beyond_without_ramp_s(self) -> float | None:
        return None if self.beyond_s is None else self.beyond_s - (self.ramp_s or 0.0)


# --- from records -------------------------------------------------------------------------------------------
def holds(run: Run) -> list[Hold]:
    """Of every stage that ran and kept a device."""
    found = []
    for stage in GPU_STAGES:
        for key, record in run.of(stage):
            provenance = record.provenance
            if provenance.device_hold_s is None:
                continue
            wait_s = provenance.device_wait_s or 0.0
            found.append(
                Hold(
                    candidate=str(key),
                    stage=stage,
                    verdict=str(record.verdict),
                    hold_s=provenance.device_hold_s,
                    wait_s=wait_s,
                    cpu_part_s=max(0.0, provenance.duration_s - wait_s - provenance.device_hold_s),
                    launches_s=launches_s(record, launch_times_ms(run, key)),
                    ramp_s=record.ramp_s if isinstance(record, TimeRecord) else None,
                    parts_s=provenance.device_hold_parts_s or {},
                )
            )
    return found


def launch_times_ms(run: Run, key: CandidateKey) -> tuple[float, float] | None:
    """Median launch of baseline and candidate, from the first timing record that has rounds."""
    for stage in ("time-fp32", "time-tf32"):
        record = run.stages.get((stage, key))
        if isinstance(record, TimeRecord) and record.rounds:
            return _medians(record)
    return None


def _medians(record: TimeRecord) -> tuple[float, float]:
    baseline = statistics.median(t for one in record.rounds for t in one.baseline_ms)
    return baseline, statistics.median(t for one in record.rounds for t in one.candidate_ms)


def launches_s(record: StageRecord, medians_ms: tuple[float, float] | None) -> float | None:
    """What the launches of one stage took by the sides' own clocks (seconds), as far as it can be known."""
    if isinstance(record, TimeRecord):
        if not record.rounds:
            return None
        recorded = sum(sum(one.baseline_ms) + sum(one.candidate_ms) for one in record.rounds)
        recorded += sum(record.baseline_alone_ms)
        return 1e-3 * (recorded + sum(_unrecorded_ms(record, side) for side in (0, 1)))
    if medians_ms is None or record.verdict != "pass":
        return None
    if isinstance(record, GateRecord):
        return 1e-3 * sum(medians_ms) * sum(trial.applicable for trial in record.trials)
    # memory: each side warms up and is measured; the judge's reference gives the expected output
    return 1e-3 * (3 * medians_ms[0] + 2 * medians_ms[1])


def _unrecorded_ms(record: TimeRecord, side: int) -> float:
    """Warm-up of two steps, the hot launches of each turn and the batches (judge/), at the side's median. The round
    before the rounds is not in it: records do not say whether there was one."""
    median_ms = _medians(record)[side]
    if median_ms > TIMING_WARMUP_BUDGET_MS:
        hot, warm_up = 0, 2
    else:
        kind = record.provenance.device.kind if record.provenance.device else "cuda"
        hot = max(1, min(TIMING_HOT_LAUNCHES_MAX, int(TIMING_HOT_MS[kind] / median_ms)))
        warm_up = 1 + 2 * TIMING_WARMUP_CHUNK
    bound = record.judge_bound
    batches: tuple[int, ...] = ()  # inputs of each
    if bound is not None:
        of_both = (bound.k or 0,) * bound.batches
        batches = (bound.baseline_k or of_both) if side == 0 else of_both
    turns = len(record.rounds) + (1 if side == 0 else 0) + len(batches)
    return median_ms * (warm_up + hot * turns + sum(batches))
