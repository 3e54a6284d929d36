"""The record of each stage that a candidate goes through. STAGE_MODELS names it by the stage."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from kbverified.records.base import FlagState, Provenance, Record, Status, Verdict
from kbverified.records.timing import CompiledBaseline, JudgeBound, Round
from kbverified.records.trials import HardenedTrial, NumericsEvidence, TrialResult


class StageRecord(Record):
    """Base of the candidate's stage records: status says whether the stage ran, verdict judges the candidate."""

    stage: str
    provenance: Provenance
    status: Status
    reason: str | None = None
    """Why the stage was skipped. None where status is ok."""
    verdict: Verdict | None = None
    """None where status is skipped."""
    detail: str | None = None
    """One human sentence or traceback tail that explains a verdict other than pass."""
    output_tail: str = ""
    """The end of what the worker printed, capped."""

    @model_validator(mode="after")
    def _status_decides(self) -> StageRecord:
        if self.status == "skipped" and (self.verdict is not None or not self.reason):
            raise ValueError("a skipped stage has a reason and no verdict")
        if self.status == "ok" and (self.verdict is None or self.reason is not None):
            raise ValueError("a stage that ran has a verdict and no reason")
        return self


class Build(Record):
    """One extension that the candidate asked for."""

    name: str
    key: str
    """Content hash over sources, flags, compilers, torch and architecture."""
    seconds: float | None = None
    cached: bool = False
    ok: bool = True
    log_tail: str = ""


class CompileRecord(StageRecord):
    stage: Literal["compile"] = "compile"
    builds: tuple[Build, ...] = ()
    build_directory: str | None = None
    """Where what was built lies: content-addressed, outside results."""
    deferred: str | None = None
    """Why (part of) the building had to wait for the gate: Triton, a device query at import. None: all built."""
    cpu_seconds: float | None = None


class GateRecord(StageRecord):
    """verdict ``pass`` here means: nothing failed that no tolerance can mend. tau is applied at aggregation."""

    stage: Literal["hidden-gate"] = "hidden-gate"
    trials: tuple[TrialResult, ...] = ()
    hardened: tuple[HardenedTrial, ...] = ()
    """No part of ``verdict``: what fails here fails the hardened test alone."""
    hardened_why_not: str | None = None
    """Why there are none, or fewer than there are laws."""
    weights_match: bool | None = None
    """Whether the candidate's state dict corresponds to the reference's and agrees. None: no correspondence."""
    flags_before: FlagState | None = None
    flags_after: FlagState | None = None
    judge_peak_bytes: int | None = None
    """Of the judge while it launched and compared: what stands beside a candidate's own memory."""
    oracle_peak_bytes: int | None = None
    """... and while it asked the float64 oracle, when no launch is under way."""
    numerics: NumericsEvidence | None = None
    """From the trial under the original law. None: it was not compared, the dtype is not fp32, or an older record."""


class TimeRecord(StageRecord):
    """Raw repetitions of baseline and candidate under one precision mode. Summaries are derived, also here."""

    stage: Literal["time-fp32", "time-tf32", "time-ieee", "time-compile"]
    rounds: tuple[Round, ...] = ()
    baseline_alone_ms: tuple[float, ...] = ()
    ramp_s: float | None = None
    """How long the judge kept the device busy until its clock was up; None on a CPU."""
    reserved_cores: int | None = None
    """Cores kept for this device's judge and workers; None where the machine has too few, or no GPU."""
    baseline_disturbed: bool | None = None
    """The baseline alone and the baseline beside the candidate differ by more than the protocol allows."""
    interleaved: bool | None = None
    """False where both sides did not fit the device together and ran one after the other."""
    outputs_verified: int | None = None
    """How many rounds had an output of a timed launch compared with the reference."""
    timed_critical_tolerance: float | None = None
    """Worst critical tolerance among them."""
    timed_output_limit: float | None = None
    """Relative rms error beyond which a timed output is wrong, for this problem."""
    flags_before: FlagState | None = None
    flags_after: FlagState | None = None
    judge_wall_ms_per_launch: float | None = None
    """The judge's own clock over the candidate's launches of a turn, per launch, flush included: an upper bound."""
    rounds_dropped: int | None = None
    """How many of the rounds are dropped."""
    budget_s: float | None = None
    """What the rounds were allowed to take, as configured."""
    judge_bound: JudgeBound | None = None
    compiled_baseline: CompiledBaseline | None = None
    """Of time-compile; None in the other stages, whose baseline is the eager reference."""


class SideMemory(Record):
    """One forward of one side. ``above`` counts what came on top of inputs and weights."""

    allocator_peak_bytes: int | None = None
    """torch's allocator peak during one forward (the published metric), inputs and weights included."""
    allocator_above_bytes: int | None = None
    device_peak_bytes: int | None = None
    """Device-wide figure, which also sees raw cudaMalloc; on a CPU, the process's peak resident set."""
    device_above_bytes: int | None = None


class MemoryRecord(StageRecord):
    stage: Literal["memory"] = "memory"
    baseline: SideMemory | None = None
    candidate: SideMemory | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    output_limit: float | None = None
    """Relative rms error beyond which the measured forward's output is wrong, as that of a timed launch."""


STAGE_MODELS: dict[str, type[StageRecord]] = {
    "compile": CompileRecord,
    "hidden-gate": GateRecord,
    "time-fp32": TimeRecord,
    "time-tf32": TimeRecord,
    "time-ieee": TimeRecord,
    "time-compile": TimeRecord,
    "memory": MemoryRecord,
}
"""The record of each stage of keys.EVERY_STAGE."""
