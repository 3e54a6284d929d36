"""What a time is made of: rounds, what the judge's own clock says about them, and a compiled baseline."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kbverified.records.base import Record


class DeviceReading(Record):
    """What NVML said about the device at one moment of a turn; None what it did not answer."""

    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle_reasons: int | None = None
    """Bit mask of clock event reasons."""


class JudgeBound(Record):
    """Launches measured by the judge's own clock: batches of distinct inputs whose outputs were all verified."""

    outcome: Literal["agreed", "disputed", "not_enforced", "not_measured"]
    """``not_enforced``: the bound is too short for the judge's clock (protocol.TIMING_BOUND_ENFORCED_ABOVE_MS)."""
    detail: str | None = None
    """Why it was not measured."""
    k: int | None = None
    """Inputs of one batch."""
    batches: int = 0
    baseline_k: tuple[int, ...] = ()
    """Inputs of each of the baseline's batches: the first was made before any code of the candidate's ran."""
    baseline_wall_ms: tuple[float, ...] = ()
    """The judge's clock over each of the baseline's batches, inputs and outputs brought and taken included."""
    baseline_launches_ms: tuple[float, ...] = ()
    """What of it were the launches themselves, by the baseline's own clock: the rest is overhead."""
    candidate_wall_ms: tuple[float, ...] = ()
    baseline_overhead_ms: tuple[float, ...] = ()
    """Of each of the baseline's batches the median over its launches of wall less launch."""
    candidate_launch_wall_ms: tuple[float, ...] = ()
    """Of each of the candidate's batches the median wall of a launch."""
    noise_ms: float | None = None
    """What this clock can tell, by the overheads in the baseline's first batch: by less a claim may be off."""
    claim_ms: float | None = None
    """Median of the candidate's recorded repetitions."""
    t_judge_ms: float | None = None
    """Candidate's smallest median wall less the baseline's smallest median overhead."""
    drift: float | None = None
    """Baseline in its batches / baseline in its rounds, at least 1: how much slower an honest launch may be there."""
    undetected_gain_at_most: float | None = None
    """Candidate's smallest median wall / claim: no honest launch of it took longer, whatever it claims."""


class Round(Record):
    """One interleaved round: each side's repetitions in milliseconds, in order."""

    first: Literal["baseline", "candidate"]
    baseline_ms: tuple[float, ...]
    candidate_ms: tuple[float, ...]
    baseline_reading: DeviceReading | None = None
    """Of the device while the baseline ran; None where nothing reads it (a CPU, no NVML)."""
    candidate_reading: DeviceReading | None = None
    """... while the candidate ran."""
    baseline_host_bound: int | None = None
    """Repetitions in which the device had done all when the host had just given it all: what such a time says is how
    fast the host is. None on a CPU, and where one side ran after the other."""
    candidate_host_bound: int | None = None
    """... by the candidate's own word."""
    sm_clock_mhz: int | None = None
    """Of records of November 2026 only, which have no readings: the SM clock right after the round."""
    throttle_reasons: int | None = None
    """... and the reasons."""
    dropped: bool = False
    """Throttled for one of protocol.TIMING_DROP_REASONS: kept here, and no part of any figure."""


class CompiledBaseline(Record):
    """The baseline of time-compile: torch.compile of the reference, and what it was compared with."""

    backend: str
    dynamic: bool
    fallback_random: bool
    """Whether random operators use eager torch's generator: without, dropout would give another answer."""
    compile_s: float = Field(ge=0)
    """Its first launch with empty caches, by the judge's clock; this happened once for the problem and environment."""
    load_s: float = Field(ge=0)
    """Its first launch in this stage, from the caches."""
    graphs: int = Field(ge=1)
    from_caches: int = Field(ge=0)
    """How many of them this stage found in inductor's caches: fewer than ``graphs`` means that it compiled again."""
    graph_breaks: int = Field(ge=0)
    """Where torch.compile fell back to eager torch between graphs."""
    critical_tolerance: float = Field(ge=0)
    """Its output against the eager reference's, same mode and dtype, on inputs of this stage."""
    rms_relative_error: float | None = Field(default=None, ge=0)
    """None where the reference is zero throughout."""
